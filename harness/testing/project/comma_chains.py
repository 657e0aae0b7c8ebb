"""Finds statements that are chained by commas: `a = 1, b = 2;`, `f(), g();`, `return x = y, x;`.

usage: comma_chains.py SOURCE_DIR

Prints FILE:LINE of each in the C, C++ and CUDA sources below harness, impls and reports; then the
exit code is 1. Inside of brackets that group, such as those of `return (a = 1, b);`, commas beside
an assignment are found; the header of `for` and arguments may have both. Relies on clang-format: a
statement that starts like a declaration is one.
"""
import pathlib
import re
import sys

TOKEN = re.compile(
    r"""(?P<skipped>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/|(?m:^[ \t]*\#)(?:\\\n|/\*.*?\*/|[^\n])*)
      | (?P<text>(?:u8|[uUL])?R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|(?:u8|[uUL])?"(?:\\.|[^"\\])*"
          |'(?:\\.|[^'\\])+')
      | (?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign><<<|>>>|<<=|>>=|<=>|\.\.\.|->\*?|\+\+|--|[-+*/%&|^!=<>]=|&&|\|\||::|<<|.)""",
    re.S | re.X)
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
# Words that an expression cannot start with, and those that a name follows in an expression.
DECLARES = set("""alignas asm auto class const constexpr enum explicit extern friend goto inline
    namespace operator private protected public static struct template thread_local typedef union
    unsigned using virtual __shared__""".split())
OPENS_SCOPE = {"namespace", "struct", "class", "enum", "union", "extern", "template"}
EXPRESSION_WORDS = {"return", "co_return", "throw", "delete", "new", "else", "sizeof", "not"}
BEFORE_BODY = {")", "{}", "else", "do", "try", "const", "noexcept", "override", "mutable"}
# A sign before brackets that do not group, but hold arguments or parameters.
BEFORE_ARGUMENTS = {")", "]", ">", ">>", ">>>", "{}", "..."}
BLOCK = ("{}", "sign", 0)


def end_of_arguments(tokens, start):
    """The index of the > that closes the < at `start`, or None: it compares, and opens nothing."""
    if start == 0 or tokens[start - 1][1] != "name":
        return None
    angles = brackets = 0
    for i in range(start, len(tokens)):
        word, kind, _ = tokens[i]
        if word in "([":
            brackets += 1
        elif word in ")]":
            brackets -= 1
            if brackets < 0:
                return None
        elif not brackets:
            if kind == "text" or word in ASSIGNS or word in ("&&", "||", "?", ";", "{}"):
                return None
            angles += {"<": 1, ">": -1, ">>": -2, ">>>": -3}.get(word, 0)
            if angles <= 0:
                break
    else:
        return None
    word, kind, _ = tokens[i + 1] if i + 1 < len(tokens) else ("", "", 0)
    if word == "?" and start > 1:  # std::is_same_v<A, B> ? x : y
        return i if tokens[start - 2][0] == "::" else None
    return i if kind in ("name", "") or word in ("(", "::", "{}", ",", "&", "*", ">") else None


def at_top(tokens):
    """The tokens outside of brackets and of arguments of templates; `>` stands for the latter."""
    top, depth, i = [], 0, 0
    while i < len(tokens):
        word = tokens[i][0]
        if word in ("(", "[", "<<<"):
            depth += 1
        elif word in (")", "]") or (word == ">>>" and depth):
            depth -= 1
        elif depth == 0:
            end = end_of_arguments(tokens, i) if word == "<" else None
            if end is None:
                top.append(tokens[i])
            else:
                top.append((">", "arguments", 0))
                i = end
        i += 1
    return top


def is_declaration(top):
    """Whether a statement with these top tokens declares: two names in a row, or `Type* name`."""
    words = [word for word, _, _ in top]
    end = next((i for i, word in enumerate(words) if word in ASSIGNS or word == ","), len(words))
    head = top[:end]
    for (word, kind, _), (_, next_kind, _) in zip(head, head[1:]):
        if kind in ("name", "arguments") and next_kind == "name" and word not in EXPRESSION_WORDS:
            return True
    shape = "".join("N" if kind == "name" else word for word, kind, _ in head)
    return words[0] in DECLARES or words[0] == ":" or bool(re.match(r"N>?(::N>?)*[*&]+N", shape))


def is_chain(statement):
    top = at_top(statement)
    while top and top[0][0] in ("case", "default"):
        label_end = next((i for i, token in enumerate(top) if token[0] == ":"), None)
        if label_end is None:
            return False
        top = top[label_end + 1:]
    words = [word for word, _, _ in top]
    return "," in words and words[0] != "," and not is_declaration(top)


def is_grouped_chain(before, inner):
    """Whether brackets after the tokens `before` group what has an assignment and a comma."""
    word, kind, _ = before[-1] if before else ("", "sign", 0)
    if kind == "name":
        groups = word in EXPRESSION_WORDS or word in ("if", "constexpr", "while", "switch")
    else:
        groups = word not in BEFORE_ARGUMENTS and "operator" not in [w for w, _, _ in before[-2:]]
    if not groups:
        return False
    part = []
    for token in at_top(inner) + [(";", "sign", 0)]:
        if token[0] != ";":
            part.append(token)
            continue
        words = {word for word, _, _ in part}
        if "," in words and words & ASSIGNS and not is_declaration(part):
            return True
        part = []
    return False


class Scan:
    """Statements outside of brackets, of one block; a block inside of an expression is a token."""

    def __init__(self):
        self.statement, self.brackets = [], []


def chains(text):
    """The line of each chain in the text."""
    scan, outer, line = Scan(), [], 1
    for match in TOKEN.finditer(text):
        word, kind = match.group(0), match.lastgroup
        start, line = line, line + word.count("\n")
        if kind == "skipped":
            continue
        token = (word, "text" if kind == "end" else kind, start)
        if word == "{":
            outer.append(scan)
            scan = Scan()
        elif word == "}" and outer:
            scan = outer.pop()
            if not scan.brackets:
                words = [word for word, _, _ in scan.statement]
                has_value = words[:1] == ["return"] or any(
                    word in ASSIGNS for word, _, _ in at_top(scan.statement))
                if (not words or (not has_value and words[-1] in BEFORE_BODY) or
                        (words[0] in OPENS_SCOPE and not (words[0] == "template" and has_value))):
                    scan.statement = []
                    continue
            scan.statement.append(BLOCK)
        elif word in ("(", "["):
            scan.brackets.append(len(scan.statement))
            scan.statement.append(token)
        elif word in (")", "]") and scan.brackets:
            opened = scan.brackets.pop()
            if word == ")" and is_grouped_chain(scan.statement[:opened],
                                                scan.statement[opened + 1:]):
                yield scan.statement[opened][2]
            scan.statement.append(token)
            words = [word for word, _, _ in scan.statement[:opened]]
            if not scan.brackets and words in (["if"], ["while"], ["for"], ["switch"],
                                               ["if", "constexpr"]):
                scan.statement = []
        elif word == ";" and not scan.brackets:
            if scan.statement and is_chain(scan.statement):
                yield scan.statement[0][2]
            scan.statement = []
        elif word not in ("else", "do") or scan.statement:
            scan.statement.append(token)


def main(root):
    files = sorted(path for folder in ("harness", "impls", "reports")
                   for path in (root / folder).rglob("*")
                   if path.suffix in (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"))
    found = 0
    for path in files:
        for line in chains(path.read_text()):
            print(f"{path.relative_to(root)}:{line}: write statements of their own, without commas")
            found = 1
    if not files:
        print("comma_chains.py: no sources")
        found = 1
    return found


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
