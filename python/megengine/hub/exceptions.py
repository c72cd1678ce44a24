"""What goes wrong with repositories."""

from __future__ import annotations

__all__ = [
    "FetcherError",
    "GitCheckoutError",
    "GitPullError",
    "InvalidGitHost",
    "InvalidProtocol",
    "InvalidRepo",
    "UntrustedRepo",
]


class FetcherError(Exception):
    """A repository cannot be had; the base of the others."""


class InvalidRepo(FetcherError):  # noqa: N818 - the reference's names, here and below
    """What should name a repository, branch or commit does not."""


class InvalidGitHost(FetcherError):  # noqa: N818
    """What should name a host does not."""


class InvalidProtocol(FetcherError):  # noqa: N818
    """The protocol is none of those there are."""


class GitPullError(FetcherError):
    """Git could not fetch a repository."""


class GitCheckoutError(FetcherError):
    """Git could not find the branch or commit in a repository."""


class UntrustedRepo(FetcherError):  # noqa: N818
    """A repository's code is not run, since nobody has said that it may be."""
