/** The texts of questions, which questions are alike, and how to answer them. */

import { api } from "./api";
import { oneLine, visible } from "./text";
import type { Answered, AnswerGiven, Effect, Option, Question, ToolPermission } from "./types";

/** The ids of the answers to a tool call. */
export const APPROVE = "approve";
export const REJECT = "reject";
export const THIS_TASK = "task";
export const BY_RULE = "rule";

export function permission(question: Pick<Question, "about">): ToolPermission | null {
  return question.about?.kind === "tool_permission" ? question.about : null;
}

const WANTS: Record<Effect, [loud: string, verb: string]> = {
  run: ["run a command", "run"],
  write: ["change files", "change"],
  read: ["read files", "read"],
  fetch: ["reach the network", "reach"],
  other: ["use a tool", "use"],
};

/** The name of a phase or step as words: `plan_review` becomes `plan review`. */
export const words = (name: string): string => oneLine(name.replaceAll("_", " "));

const GOES_TO: Record<string, string> = {
  plan: "go to the plan",
  planreview: "go to the review of the plan",
  meeting: "go to the meeting",
  codegen: "go to the code",
  review: "go to the review of the code",
  test: "go to the tests",
  accept: "go to the commit",
};

/** Where the pipeline continues after an answer, if the question is about that. */
function nextStep({ about }: Pick<Question, "about">, option: Option): string | undefined {
  if (about?.kind === "phase_choice" && option.id === "next") return `continue with ${words(about.next)}`;
  if (about?.kind === "gate_failed" && option.id === "again") return words(option.label);
  const asksWhere = about?.kind === "phase_choice" || about?.kind === "gate_failed";
  return asksWhere ? GOES_TO[option.id] : undefined;
}

/** What is asked; for a tool call, what it would do. */
export function heading(question: Question): string {
  const { about } = question;
  const call = permission(question);
  if (about?.kind === "phase_choice" && !about.reverted) return `${words(about.phase)} has finished: what next?`;
  if (about?.kind === "failed_phase_step") return `${words(about.step)} failed`;
  if (!call) return visible(question.title);
  if (call.effect === "write" && call.paths.length === 1) return "wants to change a file";
  return `wants to ${WANTS[call.effect][0]}`;
}

/** What the user can do about it. The terminal's texts mention command options, which the page does not have. */
export function description(question: Question): string {
  const { about } = question;
  if (about?.kind === "plan_approval") return "Approve it, or say what to change.";
  if (about?.kind === "report_confirmation") {
    const place = about.report ? ` The full report: ${visible(about.report)}` : "";
    return `Confirm it, or say what is missing.${place}`;
  }
  if (about?.kind === "change_acceptance") {
    const failed = about.failed.length ? `These gates failed: ${about.failed.map(oneLine).join(", ")}. ` : "";
    const problem = about.problem ? `${visible(about.problem)}. ` : "";
    const said = about.said ? `Said meanwhile: ${visible(about.said)}\nThe coder hears it if you send the change back. ` : "";
    return `${problem}${failed}${said}You can enter the commit message below.`;
  }
  return visible(question.description);
}

/** The name of an option, preceded by its id if the two differ, as on the terminal. */
export function optionName(question: Question, option: Option): string {
  if (permission(question)) return oneLine(option.label || option.id);
  const way = nextStep(question, option) ?? (isOfPipeline(question) ? option.label : undefined);
  if (way) return oneLine(way);
  const same = option.label.toLowerCase() === option.id.toLowerCase() || !option.label;
  return same ? oneLine(option.id) : `${oneLine(option.id)}: ${oneLine(option.label)}`;
}

const OF_PIPELINE = ["phase_choice", "gate_failed", "failed_phase_step", "change_acceptance", "unplanned_files"];

/** Whether a build asks it: then options are named only by what they do. */
function isOfPipeline({ about }: Pick<Question, "about">): boolean {
  return about !== null && OF_PIPELINE.includes(about.kind);
}

/** The label of the text field below the options. */
export function textName(question: Question, choice: string): string {
  if (question.kind === "Input") return "Your answer";
  const commits = question.about?.kind === "change_acceptance" && ["accept", "override", "recheck"].includes(choice);
  return commits ? "Commit message" : "Your comment";
}

/** What the tool call is about, if its content does not show it. */
export function target(question: Question): string {
  const call = permission(question);
  if (!call || call.effect === "run") return "";
  return visible(call.paths.join(", ") || call.target || question.title);
}

/** The question on one line: `wants to run: npm ci`, `asks: Which database?`. */
export function inShort(question: Question): string {
  const call = permission(question);
  if (!call) return `asks: ${oneLine(heading(question))}`;
  const what = call.command || call.paths.join(", ") || call.target || call.tool;
  return `wants to ${WANTS[call.effect][1]}: ${oneLine(what)}`;
}

/** The label of the button that sends an answer. */
export function actOf(question: Question, choice: string): string {
  const option = question.options.find((one) => one.id === choice);
  if (!option) return "Answer";
  if (isOfPipeline(question)) return asSentence(optionName(question, option));
  if (!permission(question)) return `Answer ${oneLine(option.id)}`;
  const acts: Record<string, string> = {
    [APPROVE]: "Allow once",
    [THIS_TASK]: "Allow for this task",
    [BY_RULE]: "Allow by this rule",
    [REJECT]: "Deny",
  };
  return acts[choice] ?? oneLine(option.label);
}

const asSentence = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);

/** The rule offered with the question, or an empty text. */
export function ruleOf(question: Question): string {
  return question.options.find((one) => one.id === BY_RULE)?.detail ?? "";
}

const runOf = (task: string) => task.split("/")[0];

/** Whether one answer can be applied to both questions: the same condition as on the terminal. */
export function areAlike(one: Question, other: Question): boolean {
  if (one.project !== other.project || one.id === other.id) return false;
  const [call, second] = [permission(one), permission(other)];
  if (!call || !second || call.tool !== second.tool || runOf(one.task) !== runOf(other.task)) return false;
  const sameCommand = call.command !== "" && call.command === second.command;
  return sameCommand || (ruleOf(one) !== "" && ruleOf(one) === ruleOf(other));
}

/** Whether it is answered by saying something in the conversation. */
export function isTurn(question: Question): boolean {
  return question.about?.kind === "human_turn";
}

/** Send answers; returns the outcome of each. */
export async function giveAnswers(answers: AnswerGiven[]): Promise<Answered[]> {
  return api.post<Answered[]>("/inbox/answers", { answers });
}
