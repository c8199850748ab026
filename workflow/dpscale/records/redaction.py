"""What should not be published, taken out of texts: names of users, home folders, passwords and tokens.

Records, tables and pages hold command lines, variables and lines of logs, and people attach them to reports.
"""

import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

HOME, USER, SECRET = "[home]", "[user]", "[secret]"

_SECRETIVE = r"(?:passw(?:or)?d|passphrase|secret|token|credentials?|x-amz-signature|(?:api|access|private)[ _-]?key)"
_OPTION = rf"-[\w.-]*?(?:{_SECRETIVE}|key|auth|pass|pwd)"


def _named(end_of_option: str, value: str) -> re.Pattern[str]:
    """Return what finds a `value` behind a secret's name: `HF_TOKEN=...`, `{"password": "..."}`, `WANDB_KEY=...`,
    `--api-key ...`."""
    name = rf"""[\w.-]*?(?:{_SECRETIVE}["']?[ \t]*[:=]|[_.-]key=)"""
    return re.compile(rf"(?i)(?<![\w-])((?:{name}|{_OPTION}{end_of_option})[ \t]*){value}")


_IN_TEXT = _named(r"[ \t=:]", r"""(?:"[^"\n]*"?|'[^'\n]*'?|[^\s"'&,;]+)""")
# Words are joined by NUL: the value of a secret's name ends with its word.
_IN_COMMAND = _named(r"(?:[=:]|[ \t\0]+(?!-))", r"[^\0]+")
# In code a value is a text: `login(token="...")`, `os.environ["HF_TOKEN"] = "..."`; not in `loc[key, "total"]`.
_NAME_IN_CODE = rf"""(?:(?:{_SECRETIVE}|[_.-]key|{_OPTION})["'\])]*\s*[=:,(]|\bkey["'\])]*\s*[=:])"""
_IN_CODE = re.compile(rf"""(?i)({_NAME_IN_CODE}\s*\w?["'])[^"']+""")
_AUTHORIZATION = re.compile(r"""(?i)\b(authorization["']?[ \t]*[:=][ \t]*["']?\w+[ \t]+|bearer[ \t]+)[^\s"',;]{6,}""")
_SECRET_IN_URL = re.compile(r"""(?<=://)[^\s/?#'"@:]*:[^\s/?#'"]*(?=@)""")
# Recognised by how they begin: GitHub, GitLab, Hugging Face, AWS, Slack, OpenAI and Anthropic, Google, JSON Web Tokens.
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abeoprs]-[\w-]{10,}|sk-(?:[A-Za-z0-9]|(?:proj|ant)-[\w-]){20,}|AIza[\w-]{35}"
    r"|eyJ[\w-]{10,}\.[\w-]+\.[\w-]+)"
)
# `alice@login1:` and addresses; neither `memcpy@@GLIBC_2.14` nor `package@1.2.3`.
_USER_AT_HOST = re.compile(r"(?<![\w.+@-])[\w.+-]+(?=@(?:[A-Za-z]|\d+\.\d+\.\d+\.\d))")

# Paths from the root, or up from here; in quotes they may have spaces. A slash inside `results/cells` begins none.
_PATH = re.compile(
    r"""(?<=')/[^'\n]*(?=')|(?<=")/[^"\n]*(?=")"""
    r"""|(?:(?<![\w\]~/.-])|(?<=\.\.)|(?<=\s-[IL]))(?!(?<=\w:)//[^/])/[^\s'":,;()<>|=]+"""
)
_TILDE = re.compile(r"(?<![\w\]/.~-])~[A-Za-z_][\w.-]*")
_HOME_FOLDER = re.compile(r"^.*?/(?:home|Users)/+[^/]+|^/root(?![^/])")
_USERS_FOLDER = re.compile(r"(?<=/scratch/)[^/]+")


def without_private(text: str) -> str:
    """Return `text` without the secrets and the name of the user who runs this."""
    return redacted(text, home=os.environ.get("HOME", ""))


def public_command(words: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets, home folders and the user's name."""
    return [without_private(word) for word in _IN_COMMAND.sub(rf"\1{SECRET}", "\0".join(words)).split("\0")]


def public_code(line: str) -> str:
    """Return a line of a script without secrets, home folders and the user's name."""
    return redacted(line, os.environ.get("HOME", ""), _IN_CODE)


def redacted(text: str, home: str = "", named: re.Pattern[str] = _IN_TEXT) -> str:
    """Return `text` with words in brackets for what should not be published: `[home]/data`, `[user]@login1`,
    `token=[secret]`. It recognises what common tools print: that prevents accidents, and no more. Commit hashes, UUIDs
    of GPUs and paths inside the project stay.

    `home` is the home directory of the user who runs this. It can be anywhere, and its last part is taken for the
    user's name wherever it is a word, also in paths and host names. Pure; no line is lost.
    """
    for secret in (_AUTHORIZATION, named):
        text = secret.sub(rf"\1{SECRET}", text)
    for secret in (_SECRET_IN_URL, _TOKEN):
        text = secret.sub(SECRET, text)
    text = _USER_AT_HOST.sub(USER, text)
    text = _TILDE.sub(HOME, text)
    home = home.rstrip("/")
    is_of_a_user = len(PurePosixPath(home).parts) > 2  # neither `/` nor `/root`
    text = _PATH.sub(lambda path: _without_home(path[0], home if is_of_a_user else ""), text)
    # Not the words in brackets, should somebody be called `user`.
    return re.sub(rf"(?<![\w\[]){re.escape(PurePosixPath(home).name)}(?!\w)", USER, text) if is_of_a_user else text


def _without_home(path: str, home: str) -> str:
    if home and f"{path}/".startswith(f"{home}/"):
        return HOME + path[len(home) :]
    return _USERS_FOLDER.sub(USER, _HOME_FOLDER.sub(HOME, path))
