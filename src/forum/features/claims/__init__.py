"""Claims: find sentences that say that something was done, in the replies of agents."""

from forum.feature import Feature

FEATURE = Feature(
    "claims",
    find_claims="claims.service:find_claims",
)
