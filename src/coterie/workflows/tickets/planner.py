"""From goal to plan: questions to the user, a plan that can be carried out, the user's approval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

from coterie.model.about import ClarifyingQuestion, PlanApproval, PlanRejected
from coterie.model.envelope import Clarification, ClarificationResponse, Error, Plan, Review
from coterie.model.interaction import COTERIE, Ask, Option
from coterie.model.journal import digest
from coterie.model.plan_rules import plan_hash, problems
from coterie.workflows.chat import STOP, answer_or_stop
from coterie.workflows.tickets.messenger import Draft
from coterie.workflows.tickets.ticket_run import SessionServices

GO = "go"
"""The user's answer to end the questions."""
_TRIES = 3
"""How often a plan that cannot be carried out goes back to the manager before the user is asked."""
_MOST_PROBLEMS = 20
_COMMENT_NOTE = "(your comment goes to everybody)"
_APPROVE = Option(id="approve", label="approve", style="primary", detail=_COMMENT_NOTE)
_CHANGE = Option(id="change", label="change the plan", detail="with your comment")


@dataclass(frozen=True)
class Planner:
    """What the manager does before there are tickets, and when they have to change."""

    services: SessionServices

    async def clarify(self) -> Clarification | None:
        """Ask the user until the manager says the goal is clear, or the user says go."""
        known: list[str] = []
        asked: Clarification | None = None
        post, manager = self.services.messenger.post, self.services.manager
        user = self.services.task.author
        for number in range(1, self.services.config.clarifications + 1):
            name = f"clarify/{number}"
            prompt = self._prompt("clarify", answers=known)
            asked = await manager.ask(name, prompt, Clarification)
            await post(f"{name}/asked", Draft(manager.id, user, asked))
            if asked.status == "clear":
                return asked
            answers = await self._answers(number, asked.questions)
            done = any(answer.strip().casefold() == GO for answer in answers)
            response = ClarificationResponse(
                answers=tuple(answers), status="clear" if done else "open"
            )
            await post(f"{name}/answered", Draft(user, manager.id, response))
            known += [f"{q} {a}" for q, a in zip(asked.questions, answers, strict=False)]
            if done:
                return asked
        return asked

    async def _answers(self, number: int, questions: Sequence[str]) -> list[str]:
        answers: list[str] = []
        for place, question in enumerate(questions, 1):
            ask = Ask(
                self.services.manager.id,
                "Input",
                ClarifyingQuestion(question=question, number=place, total=len(questions)),
                "request_info",
                intent=[number, place],
            )
            answer = await self.services.context.ask(f"clarify/{number}/question/{place}", ask)
            answers.append(answer.response.input_value or GO)
            if answers[-1].strip().casefold() == GO:
                break
        return answers

    async def plan(self, clarified: Clarification | None) -> Plan:
        """Return a plan that can be carried out and that the user has approved."""
        known = f"What the user wants: {clarified.intent_summary}" if clarified else ""
        return await self._approved(
            lambda number: f"plan/{number}",
            lambda note: self._prompt("plan", clarified=known, note=note),
        )

    async def replan(self, why: str) -> Plan:
        """Return the plan from here on; the user must approve one that differs from the last."""
        tracker = self.services.tracker
        name = f"replan/{tracker.plans}/{digest('step', why)}"
        shown = [f"{t.id} {t.task_id}: {t.state} ({t.title})" for t in tracker.tickets]
        prompt = self._prompt("replan", why=why, tickets=shown)
        return await self._approved(
            lambda number: name if number == 1 else f"{name}/{number}",
            lambda note: f"{prompt}\n\n{note}" if note else prompt,
            why,
        )

    async def _approved(
        self, step: Callable[[int], str], prompt: Callable[[str], str], why: str = ""
    ) -> Plan:
        """Ask for plans until the user approves one; each prompt has a note about the last."""
        tracker, note = self.services.tracker, ""
        done = [t.task_id for t in tracker.tickets if t.closed_by is None and t.state == "done"]
        for number in count(1):
            plan = await self._valid_plan(step(number), prompt(note), done)
            if plan == tracker.plan:
                return plan
            wanted = await self._requested_change(f"{step(number)}/approve", plan, why)
            if wanted is None:
                return plan
            await self._send_back(f"{step(number)}/sent-back", plan, wanted)
            note = f"The user saw your last plan and says: {wanted}"
        raise AssertionError("unreachable")

    async def _send_back(self, name: str, plan: Plan, wanted: str) -> None:
        """Store a plan that the user did not approve, and what they want instead."""
        manager, user = self.services.manager.id, self.services.task.author
        review = Review(decision="changes_requested", notes=wanted)
        drafts = (Draft(manager, user, plan), Draft(user, manager, review))
        await self.services.messenger.post(name, *drafts)

    async def _valid_plan(self, name: str, prompt: str, done: Sequence[str]) -> Plan:
        """Ask for a plan until it has no cycles, unknown names and the like."""
        services, wrong = self.services, list[str]()
        for tries in count(1):
            mistakes = "\n\nYour last plan cannot be carried out:\n" + "\n".join(wrong)
            text = prompt + (mistakes if wrong else "")
            plan = await services.manager.ask(f"{name}/try/{tries}", text, Plan)
            wrong = problems(plan, services.workers.workers, done)[:_MOST_PROBLEMS]
            if not wrong:
                return plan
            error = Error(
                code="validation_failed",
                message="The plan cannot be carried out: " + "; ".join(wrong),
                resolution_hint="Give the whole plan again, corrected.",
            )
            draft = Draft(COTERIE, services.manager.id, error)
            await services.messenger.post(f"{name}/refused/{tries}", draft)
            if tries % _TRIES == 0:
                question = _question_about(services.manager.id, wrong)
                await answer_or_stop(services.context, f"{name}/stuck/{tries}", question)
        raise AssertionError("unreachable")

    async def _requested_change(self, name: str, plan: Plan, why: str = "") -> str | None:
        """Return what the user wants changed; None if they approve exactly this plan."""
        services = self.services
        if services.task.caps.yes:
            return None
        question = Ask(
            services.manager.id,
            "Composite",
            PlanApproval(
                plan=plan_hash(plan), tickets=len(plan.tasks), replaces=bool(why), why=why
            ),
            options=(_APPROVE, _CHANGE, STOP),
            content=_shown(plan),
            intent=["plan", plan_hash(plan)],
        )
        response = (await answer_or_stop(services.context, name, question)).response
        comment = response.words
        if response.selected_option_id != _APPROVE.id:
            return comment or "Please make a new plan."
        if comment:
            review = Review(decision="approved", notes=comment)
            draft = Draft(response.author_actor_id, services.manager.id, review)
            await services.messenger.post(f"{name}/answered", draft)
            services.tracker.add_approval_note(comment)
        return None

    def _prompt(self, name: str, **facts: object) -> str:
        services = self.services
        workers = [
            f"{worker.id}: {', '.join(worker.capabilities) or worker.role or 'anything'}"
            for worker in services.workers.workers
        ]
        return services.messenger.prompt(name, goal=services.task.goal, workers=workers, **facts)


def _question_about(manager: str, wrong: Sequence[str]) -> Ask:
    """Ask what to do about a manager whose plans are invalid: let it try again, or stop."""
    return Ask(
        manager,
        "Select",
        PlanRejected(manager=manager, tries=_TRIES),
        options=(Option(id="retry", label="let it try again", style="primary"), STOP),
        content="\n".join(wrong),
    )


def _shown(plan: Plan) -> str:
    """Render a plan as text for people."""
    lines: list[str] = []
    for task in plan.tasks:
        who = f" [{task.assigned_to.role_id}]" if task.assigned_to else ""
        after = f"  after {', '.join(task.dependencies)}" if task.dependencies else ""
        lines.append(f"{task.task_id}{who}{after}")
        lines.append(f"    {task.description}")
        lines += [f"    risk: {risk}" for risk in task.risks]
    return "\n".join(lines)
