/** State shared by all screens: projects, tasks and open questions, kept current by the event stream. */

import { SvelteMap } from "svelte/reactivity";
import { api } from "./api";
import { Loader } from "./loader.svelte";
import { stream } from "./stream.svelte";
import type { Project, Question, StreamEvent, Task } from "./types";

export const keyOf = (one: { project: string; id: string }) => `${one.project}.${one.id}`;

class World {
  projects = $state.raw<Project[]>([]);
  tasks = new SvelteMap<string, Task>();
  questions = new SvelteMap<string, Question>();

  /** Events that arrived during a load, whose answer may be older than they are. */
  private meanwhile: StreamEvent[] = [];
  private reading = new Loader(async (signal) => {
    this.meanwhile = []; // discards those of a load that failed
    const [projects, tasks, questions] = await Promise.all([
      api.get<Project[]>("/projects", {}, signal),
      api.get<Task[]>("/tasks", {}, signal),
      api.get<Question[]>("/inbox", {}, signal),
    ]);
    this.projects = projects;
    this.fill(tasks, questions);
    for (const event of this.meanwhile) this.apply(event);
    return true;
  });

  /** Whether everything was loaded at least once. */
  get ready(): boolean {
    return this.reading.data === true;
  }

  get problem() {
    return this.reading.problem;
  }

  /** Tasks, newest first, without tickets and other subtasks. */
  newest = $derived(
    [...this.tasks.values()]
      .filter((task) => task.parent_id === null)
      .sort((a, b) => b.changed_at.localeCompare(a.changed_at)),
  );

  /** The open questions, oldest first. */
  waiting = $derived(
    [...this.questions.values()]
      .filter((question) => question.state === "open")
      .sort((a, b) => a.asked_at.localeCompare(b.asked_at)),
  );

  start(): () => void {
    void this.reading.load();
    return stream.on((event) => this.handle(event));
  }

  read(): Promise<void> {
    return this.reading.load();
  }

  /** Add a task that was just started here, without waiting for its event. */
  know(task: Task): void {
    this.tasks.set(keyOf(task), task);
  }

  project(id: string): Project | undefined {
    return this.projects.find((one) => one.id === id);
  }

  /** The open questions of a task and of its tickets. */
  asks(project: string, task: string): Question[] {
    return this.waiting.filter(
      (one) => one.project === project && (one.task === task || one.task.startsWith(`${task}/`)),
    );
  }

  private fill(tasks: Task[], questions: Question[]): void {
    fill(this.tasks, tasks);
    fill(this.questions, questions);
  }

  private handle(event: StreamEvent): void {
    if (event.name === "reset") void this.reading.load();
    else {
      if (this.reading.loading && event.name !== "record" && event.name !== "delta") this.meanwhile.push(event);
      this.apply(event);
    }
  }

  private apply(event: StreamEvent): void {
    if (event.name === "task") {
      this.tasks.set(keyOf(event.data), event.data);
      if (!this.project(event.data.project)) void this.reading.load();
    } else if (event.name === "question") {
      const key = keyOf(event.data);
      if (event.data.state === "open") this.questions.set(key, event.data);
      else this.questions.delete(key);
    }
  }
}

function fill<T extends { project: string; id: string }>(map: Map<string, T>, all: T[]): void {
  const keys = new Set(all.map(keyOf));
  for (const key of [...map.keys()]) if (!keys.has(key)) map.delete(key);
  for (const one of all) map.set(keyOf(one), one);
}

export const world = new World();
