"""From a goal to a plan: questions to the user, a plan that can be carried out, the user's yes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from coterie.model.about import ClarifyingQuestion, PlanApproval, PlanRejected
from coterie.model.envelope import Clarification, ClarificationResponse, Error, Plan
from coterie.model.interaction import Ask, Option
from coterie.model.journal import digest
from coterie.model.plan_rules import plan_hash, problems
from coterie.model.task import TaskCreated
from coterie.ports import Context
from coterie.workflows.tickets.board import Board
from coterie.workflows.tickets.correspondence import COTERIE, Correspondence, Said
from coterie.workflows.tickets.managing import Managing
from coterie.workflows.tickets.roster import Roster

GO = "go"
"""What a user answers who has been asked enough."""
_TRIES = 3
"""So often a plan that cannot be carried out goes back to the manager before the user is asked."""
_TOLD = 20


class Planning:
    """What the manager does before there are tickets, and when they have to change."""

    def __init__(
        self,
        task: TaskCreated,
        context: Context,
        letters: Correspondence,
        roster: Roster,
        managing: Managing,
    ) -> None:
        self._task = task
        self._context = context
        self._letters = letters
        self._roster = roster
        self._managing = managing
        self._manager = managing.manager

    # -- clarify -------------------------------------------------------------------------------

    async def clarify(self) -> Clarification | None:
        """Ask the user until the manager says it is clear, or the user says go."""
        talked: list[str] = []
        clear: Clarification | None = None
        for number in range(1, self._task.scheduler.clarifications + 1):
            said = await self._managing.say(
                f"clarify/{number}",
                self._letters.prompt(
                    "clarify", goal=self._task.goal, workers=self._workers(), answers=talked
                ),
                "clarification",
            )
            assert isinstance(said, Clarification)
            clear = said
            user = self._task.author
            await self._letters.post(f"clarify/{number}/asked", Said(self._manager.id, user, said))
            if said.status == "clear":
                return clear
            answers = await self._answers(number, said.questions)
            done = any(answer.strip().casefold() == GO for answer in answers)
            given = ClarificationResponse(
                answers=tuple(answers), status="clear" if done else "open"
            )
            reply = Said(user, self._manager.id, given)
            await self._letters.post(f"clarify/{number}/answered", reply)
            talked += [f"{q} {a}" for q, a in zip(said.questions, answers, strict=False)]
            if done:
                return clear
        return clear

    async def _answers(self, number: int, questions: Sequence[str]) -> list[str]:
        answers: list[str] = []
        for place, question in enumerate(questions, 1):
            ask = Ask(
                self._manager.id,
                "Input",
                ClarifyingQuestion(question=question, number=place, total=len(questions)),
                "request_info",
                intent=[number, place],
            )
            answer = await self._context.ask(f"clarify/{number}/question/{place}", ask)
            answers.append(answer.response.input_value or GO)
            if answers[-1].strip().casefold() == GO:
                break
        return answers

    # -- plan ----------------------------------------------------------------------------------

    async def plan(self, clarified: Clarification | None) -> Plan:
        """A plan that can be carried out and that the user has approved."""
        known = f"What the user wants: {clarified.intent_summary}" if clarified else ""
        note = ""
        for number in count(1):
            prompt = self._letters.prompt(
                "plan", goal=self._task.goal, clarified=known, workers=self._workers(), note=note
            )
            plan = await self._possible(f"plan/{number}", prompt, ())
            wanted = await self._wishes(f"plan/{number}/approve", plan)
            if wanted is None:
                return plan
            note = _seen(wanted)
        raise AssertionError("counting never ends")

    async def replan(self, why: str, board: Board) -> Plan:
        """The plan as it should be from here on; the user approves what differs from the last."""
        name = f"replan/{board.plans}/{digest('step', why)}"
        done = [t.task_id for t in board.tickets if t.closed_by is None and t.state == "done"]
        prompt = self._letters.prompt(
            "replan",
            why=why,
            goal=self._task.goal,
            workers=self._workers(),
            tickets=[f"{t.id} {t.task_id}: {t.state} ({t.title})" for t in board.tickets],
        )
        note = ""
        for number in count(1):
            step = name if number == 1 else f"{name}/{number}"
            plan = await self._possible(step, f"{prompt}{note}", done)
            if board.plan == plan:
                return plan
            wanted = await self._wishes(f"{step}/approve", plan, why)
            if wanted is None:
                return plan
            note = f"\n\n{_seen(wanted)}"
        raise AssertionError("counting never ends")

    async def _possible(self, name: str, prompt: str, done: Sequence[str]) -> Plan:
        """A plan without circles, unknown names and the like."""
        wrong: list[str] = []
        for tries in count(1):
            mistakes = "\n\nYour last plan cannot be carried out:\n" + "\n".join(wrong)
            said = await self._managing.say(
                f"{name}/try/{tries}", prompt + (mistakes if wrong else ""), "plan"
            )
            assert isinstance(said, Plan)
            wrong = problems(said, self._roster.workers, done)[:_TOLD]
            if not wrong:
                return said
            error = Error(
                code="validation_failed",
                message="The plan cannot be carried out: " + "; ".join(wrong),
                resolution_hint="Give the whole plan again, mended.",
            )
            await self._letters.post(
                f"{name}/refused/{tries}", Said(COTERIE, self._manager.id, error)
            )
            if tries % _TRIES == 0:
                await self._stuck(f"{name}/stuck/{tries}", wrong)
        raise AssertionError("counting never ends")

    async def _stuck(self, name: str, wrong: Sequence[str]) -> None:
        """The manager does not get it right: try again, or stop."""
        question = Ask(
            self._manager.id,
            "Select",
            PlanRejected(manager=self._manager.id, tries=_TRIES),
            options=(
                Option(id="retry", label="let it try again", style="primary"),
                Option(id="stop", label="stop and keep", style="danger"),
            ),
            content="\n".join(wrong),
        )
        answer = await self._context.ask(name, question)
        if answer.response.selected_option_id == "stop" and answer.fresh:
            self._context.park("stopped")

    async def _wishes(self, name: str, plan: Plan, why: str = "") -> str | None:
        """None where the user approves of exactly this plan; else what they want changed."""
        if self._task.caps.yes:
            return None
        question = Ask(
            self._manager.id,
            "Select",
            PlanApproval(
                plan=plan_hash(plan), tickets=len(plan.tasks), replaces=bool(why), why=why
            ),
            options=(
                Option(id="approve", label="go", style="primary"),
                Option(id="change", label="plan anew", detail="with what you say"),
                Option(id="stop", label="stop and keep", style="danger"),
            ),
            content=shown(plan),
            intent=["plan", plan_hash(plan)],
        )
        answer = await self._context.ask(name, question)
        choice = answer.response.selected_option_id
        if choice == "approve":
            return None
        if choice == "stop" and answer.fresh:
            self._context.park("stopped")
        return answer.response.comment or answer.response.input_value or "Please plan it anew."

    # -- parts ---------------------------------------------------------------------------------

    def _workers(self) -> list[str]:
        return [
            f"{worker.id}: {', '.join(worker.capabilities) or worker.role or 'anything'}"
            for worker in self._roster.workers
        ]


def _seen(wanted: str) -> str:
    return f"The user saw your last plan and says: {wanted}"


def shown(plan: Plan) -> str:
    """A plan as people read it."""
    lines: list[str] = []
    for task in plan.tasks:
        who = f" [{task.assigned_to.role_id}]" if task.assigned_to else ""
        after = f"  after {', '.join(task.dependencies)}" if task.dependencies else ""
        lines.append(f"{task.task_id}{who}{after}")
        lines.append(f"    {task.description}")
        lines += [f"    risk: {risk}" for risk in task.risks]
    return "\n".join(lines)
