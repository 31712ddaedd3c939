"""OutputConstraints become the matcher of one answer; what cannot be kept is refused here."""

from __future__ import annotations

from threading import Lock

from llguidance import LLMatcher

from node.chat.constraint_matcher import ConstraintMatcher, Controls, Matchers
from node.chat.grammar import CallRule, call_grammar, output_grammar
from node.chat.grammar_compiler import GrammarCompiler, GrammarError
from node.chat.output_constraints import CallableTool, OutputConstraints
from node.chat.schema import SchemaError, plain
from node.chat.tokenizer import Tokenizer

END_OF_TURN = "<|im_end|>"


class ConstraintCompiler:
    """Of one tokenizer and one form of calls. Any thread may use it; what it does can take a second."""

    def __init__(self, tokenizer: Tokenizer, *, xml: bool) -> None:
        self._tokenizer = tokenizer
        self._xml = xml
        self._lock = Lock()
        self._compilers: dict[int, GrammarCompiler] = {}

    def warm(self, width: int) -> GrammarCompiler:
        """Make ready for tables of `width` rows: seconds, once."""
        with self._lock:
            if width not in self._compilers:
                # Where a vocabulary has no such token nothing ends but by the request's stop ids.
                end = self._tokenizer.control.get(END_OF_TURN, 0)
                self._compilers[width] = GrammarCompiler(self._tokenizer, width, end)
            return self._compilers[width]

    def make(
        self, constraints: OutputConstraints, stop_ids: frozenset[int], width: int
    ) -> ConstraintMatcher | None:
        """None where nothing is to be enforced. Raises SchemaError."""
        if constraints.empty:
            return None
        controls = Controls.of(self._tokenizer, stop_ids)
        call = self._call(constraints, width) if constraints.shapes_calls else None
        output = self._output(constraints, width) if constraints.output is not None else None
        return ConstraintMatcher(constraints, Matchers(call, output), controls, self._tokenizer, width)

    def _output(self, constraints: OutputConstraints, width: int) -> LLMatcher:
        schema = plain(constraints.output, path=constraints.output_path, strict=True)
        try:
            return self.warm(width).compile(output_grammar(schema))
        except GrammarError as error:
            raise SchemaError(constraints.output_path, error.keyword, str(error)) from error

    def _call(self, constraints: OutputConstraints, width: int) -> LLMatcher:
        rules = [self._rule(tool, constraints) for tool in constraints.tools]
        try:
            return self._compiled(rules, width)
        except GrammarError as error:
            # One of them is at fault, or all together: find out which, and let go of what was not promised.
            relaxed = [self._checked(rule, width) for rule in rules]
            try:
                return self._compiled(relaxed, width)
            except GrammarError:
                raise SchemaError("tools", error.keyword, f"all together: {error}") from error

    def _rule(self, tool: CallableTool, constraints: OutputConstraints) -> CallRule:
        """Where tools are free only those that are strict have their schema looked at."""
        free = CallRule(tool.name, None, strict=False, path=tool.path)
        if not (tool.strict or constraints.shapes_answer):
            return free
        try:
            schema = plain(tool.schema, path=tool.path, strict=tool.strict)
            rule = CallRule(tool.name, schema, tool.strict, tool.path)
            call_grammar([rule], xml=self._xml, end=0)
        except SchemaError:
            if tool.strict:
                raise
            return free
        return rule

    def _checked(self, rule: CallRule, width: int) -> CallRule:
        try:
            self._compiled([rule], width)
        except GrammarError as error:
            if rule.strict:
                raise SchemaError(rule.path, error.keyword, str(error)) from error
            return CallRule(rule.name, None, strict=False, path=rule.path)
        return rule

    def _compiled(self, rules: list[CallRule], width: int) -> LLMatcher:
        end = self._tokenizer.control["</tool_call>"]
        return self.warm(width).compile(call_grammar(rules, xml=self._xml, end=end))
