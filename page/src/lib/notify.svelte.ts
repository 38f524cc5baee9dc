/** A word of the browser when a question waits or a task ends, while nobody looks at the page. */

import { router, to } from "./router.svelte";
import { stream } from "./stream.svelte";
import { oneLine } from "./text";
import type { Question, Status, StreamEvent, Task } from "./types";
import { keyOf } from "./world.svelte";

const ENDED: ReadonlySet<Status> = new Set(["completed", "failed", "canceled"]);

class Notifier {
  permission = $state<NotificationPermission>(
    "Notification" in globalThis ? Notification.permission : "denied",
  );

  private told = new Set<string>();

  async allow(): Promise<void> {
    this.permission = await Notification.requestPermission();
  }

  start(): () => void {
    return stream.on((event) => {
      // One tab speaks for all of them, and only when none of them is looked at.
      if (!stream.leads || stream.isWatched || this.permission !== "granted") return;
      this.hear(event);
    });
  }

  private hear(event: StreamEvent): void {
    if (event.name === "question" && event.data.state === "open") this.question(event.data);
    if (event.name === "task" && ENDED.has(event.data.status)) this.ended(event.data);
  }

  private question(question: Question): void {
    // Not what exactly is asked for: a notification is kept, and read by others, outside of here.
    const wants = question.about?.kind === "tool_permission" ? "wants your permission" : "asks you";
    const body = oneLine(question.task_title);
    this.once(`question.${keyOf(question)}`, `${question.member} ${wants}`, body, to.inbox(question));
  }

  private ended(task: Task): void {
    if (task.parent_id !== null) return;
    const title = `${task.id} ${task.status}`;
    const place = to.talk(task.project, task.id);
    this.once(`task.${keyOf(task)}.${task.status}`, title, oneLine(task.title), place);
  }

  private once(tag: string, title: string, body: string, place: string): void {
    if (this.told.has(tag)) return;
    this.told.add(tag);
    const shown = new Notification(title, { body, tag, icon: "/icon.svg" });
    shown.onclick = () => {
      focus();
      router.go(place);
      shown.close();
    };
  }
}

export const notifier = new Notifier();
