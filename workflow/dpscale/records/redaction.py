"""Removes from log lines what nobody wants to publish: user names, home directories, passwords, tokens.

It recognises what common tools print. That prevents accidents in tables and pages, and no more. Commit hashes, UUIDs of
GPUs and paths inside the project stay as they are, except for the name of the user who runs this.
"""

import re
from pathlib import PurePosixPath

HOME, USER, SECRET = "[home]", "[user]", "[secret]"

_SECRETIVE = r"(?:passw(?:or)?d|passphrase|secret|token|credentials?|x-amz-signature|(?:api|access|private)[ _-]?key)"
_VALUE = r"""(?:"[^"\n]*"?|'[^'\n]*'?|[^\s"'&,;]+)"""
# `HF_TOKEN=...`, `{"password": "..."}`, `--api-key ...`.
_NAMED_SECRET = re.compile(
    rf"""(?i)(?<![\w-])((?:[\w-]*?{_SECRETIVE}["']?[ \t]*[:=]|--[\w-]*?{_SECRETIVE})[ \t]*){_VALUE}"""
)
_AUTHORIZATION = re.compile(r"""(?i)\b(authorization["']?[ \t]*[:=][ \t]*["']?\w+[ \t]+|bearer[ \t]+)[^\s"',;]{6,}""")
_SECRET_IN_URL = re.compile(r"""(?<=://)[^\s/?#'"@]*:[^\s/?#'"]*(?=@)""")
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


def redacted(text: str, home: str = "") -> str:
    """`text` with words in brackets for what should not be published: `[home]/data`, `[user]@login1`, `token=[secret]`.

    `home` is the home directory of the user who runs this. It can be anywhere, and its last part is taken for the
    user's name wherever it is a word, also in paths and host names. Pure; no line is lost.
    """
    text = _SECRET_IN_URL.sub(SECRET, text)
    text = _AUTHORIZATION.sub(rf"\1{SECRET}", text)
    text = _NAMED_SECRET.sub(rf"\1{SECRET}", text)
    text = _TOKEN.sub(SECRET, text)
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
