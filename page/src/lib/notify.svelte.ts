/** Browser notifications for new questions and ended tasks, while no tab of the page is visible. */

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

  private notified = new Set<string>();

  async allow(): Promise<void> {
    this.permission = await Notification.requestPermission();
  }

  start(): () => void {
    return stream.on((event) => {
      // Only one tab notifies, and only while none is visible.
      if (!stream.leads || stream.isWatched || this.permission !== "granted") return;
      this.handle(event);
    });
  }

  private handle(event: StreamEvent): void {
    if (event.name === "question" && event.data.state === "open") this.question(event.data);
    if (event.name === "task" && ENDED.has(event.data.status)) this.ended(event.data);
  }

  private question(question: Question): void {
    // Without the details: the system keeps notifications, and other programs can read them.
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
    if (this.notified.has(tag)) return;
    this.notified.add(tag);
    const shown = new Notification(title, { body, tag, icon: "/icon.svg" });
    shown.onclick = () => {
      focus();
      router.go(place);
      shown.close();
    };
  }
}

export const notifier = new Notifier();
