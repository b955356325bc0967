"""The roles of a team: one module for each, with its prompt, its reply schema and its parser.

A role is asked only where code cannot decide, and its reply counts only after code has validated
its form. The text of a prompt is the contract with a model: the module of the role says which parts
it holds. Every change of a prompt raises `policy.PROMPT_VERSION`; the prompts as sent are compared
with files of the tests.
"""
