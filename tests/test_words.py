"""Plain words and one spelling in docs, docstrings, comments and messages."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("src/regfactor", "tests", "benchmarks", "experiments", "examples", "docs")
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path != Path(__file__) and ".venv" not in path.parts
]
PLAINER = {  # words that a reader of scikit-learn's documentation would not expect
    r"holes?": "missing entries",
    r"beside": "next to, relative to",
    r"for ever(?! [a-z])": "unbounded, indefinitely",
    r"without end": "unbounded, indefinitely",
    r"says so": "reports it",
    r"stands for": "is",
    r"foresaw": "predicted",
    r"the commonest": "the most frequent",
    r"convex door": "convex form",
    r"raise for limits of a run": "raise if a limit is invalid",
    r"simply|obviously|of course|easily": "nothing",
    r"blazing|state-of-the-art|powerful|seamless\w*|cutting-edge": "a measurement",
    r"utili[sz]e\w*": "use",
    r"leverag(e[sd]|ing) (the|a|its)": "use",
}
AMERICAN = {
    r"behaviours?": "behavior",
    r"colou?rs?(?<!colors)(?<!color)": "color",
    r"cent(re|res|red|ring)": "center",
    r"favou?r(?<!favor)\w*": "favor",
    r"neighbours?\w*": "neighbor",
    r"(normal|standard|optim|minim|maxim|general|regular|initial|summar|factor)is(e|es|ed|ing|ation)": (
        "-ize"
    ),
    r"(?<!un)(label|model|cancel|travel|signal)l(ed|ing)": "one l",
    r"analyse[sd]?": "analyze",
    r"grey": "gray",
    r"artefacts?": "artifact",
}
MISSPELLED = (
    r"teh|recieve\w*|seperat\w*|occured|occurence\w*|existant|consistant\w*|independant\w*|"
    r"neccess\w*|necesary|accomodat\w*|acheiv\w*|begining|beleiv\w*|definately|dependan\w*|"
    r"enviroment\w*|explicitely|existance|formated|formating|garantee\w*|gurantee\w*|heirarch\w*|"
    r"immediatly|indic(i)?ies|infinte|initalis\w*|lenght\w*|maintainance|occuring|paramater\w*|"
    r"parmeter\w*|performace|posible|prefered|probablity|proabil\w*|recomend\w*|refered|"
    r"succesful\w*|suport\w*|threshhold\w*|tolerence\w*|transfered|untill|wich|wether|writen|"
    r"covarience|matricies|algoritm\w*|convergance|gradiant|regularizat(?!ion)\w*|the the|a a|an an|"
    r"is is|of of|to to|and and|in in"
)
RULES = PLAINER | AMERICAN | {MISSPELLED: "a word that exists, once"}
NAMES_OF_OTHERS = re.compile(
    r"`[^`]*`|\]\([^)]*\)|https?://\S+|<[^>]*>", flags=re.DOTALL
)  # of code, links and files


def prose_of_page(path):
    """The text of a page without code blocks, inline code and addresses."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return NAMES_OF_OTHERS.sub(" ", text)


def prose_of_source(path):
    """The docstrings, messages and comments of a file, without code in backquotes."""
    text = path.read_text(encoding="utf-8")
    found = [
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return NAMES_OF_OTHERS.sub(" ", "\n".join(found))


def unwanted(text):
    """The words of a text that a rule replaces, with what to write."""
    found = []
    for pattern, better in RULES.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", text, flags=re.IGNORECASE):
            found.append(f"{match[0]!r}: write {better}")
    return sorted(set(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_plain_words(page):
    assert unwanted(prose_of_page(page)) == []


def test_sources_have_plain_words():
    found = {path.relative_to(ROOT).as_posix(): unwanted(prose_of_source(path)) for path in SOURCES}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_rules_find_what_they_are_for():
    bad = "A table with holes, beside the colour of the neighbours, which grows for ever."
    assert len(unwanted(bad)) == 5
    assert unwanted("We optimise the behaviour in in a labelled table.") != []
    assert unwanted("for every color of the labeled neighbors, the `holes` of normalized X") == [
        "'holes': write missing entries"
    ]
    assert unwanted(NAMES_OF_OTHERS.sub(" ", "the `holes` [of](beside.md) X")) == []
