"""Reviews and incidents over HTTP: what the commands do, in the name of a key."""

from pathlib import Path

from forum.features.oversight.service import OversightOperations
from forum.ledger.kinds import Scope
from forum.runs.kinds import Authority
from tests.surfaces.halls import lone_hall, showing

REVIEWS, INCIDENTS = "/api/v1/reviews", "/api/v1/incidents"


def test_a_review_is_recorded_up_to_what_was_shown(tmp_path: Path) -> None:
    """The denial of a request is worth a look; after the review there is none."""
    with lone_hall(tmp_path) as (forum, client):
        auditor = showing(forum.access.grant("auditor", {Scope.AUDIT}))
        reader = showing(forum.access.grant("reader", {Scope.READ}))
        refused = client.get(REVIEWS, headers=reader)
        forum.log.publish()
        shown = client.get(REVIEWS, headers=auditor).json()
        asked = {"until": shown["until"], "remark": "One denial, expected."}
        done = client.post(REVIEWS, headers=auditor, json=asked)
        forum.log.publish()
        again = client.get(REVIEWS, headers=auditor).json()
        (review,) = OversightOperations(forum).read_reviews()

    assert refused.status_code == 403
    assert shown["counts"]["denials"] == 1
    assert "door=get_review" in shown["items"][0]["text"]
    assert done.status_code == 201
    assert done.json()["recorded"] == review.entry
    assert review.facts.by is Authority.KEY
    assert review.actor.startswith("key/auditor/")
    assert (again["counts"]["denials"], again["last"]["remark"]) == (0, "One denial, expected.")


def test_an_incident_is_opened_listed_and_closed_once(tmp_path: Path) -> None:
    """With the name of the key, and the time at which somebody became aware of it."""
    with lone_hall(tmp_path) as (forum, client):
        auditor = showing(forum.access.grant("auditor", {Scope.AUDIT}))
        ask = {"severity": "high", "text": "Paid twice.", "known": "2026-01-02T03:04:05Z"}
        opened = client.post(INCIDENTS, headers=auditor, json=ask)
        address = f"{INCIDENTS}/{opened.json()['id']}/close"
        closed = client.post(address, headers=auditor, json={"text": "Refunded."})
        twice = client.post(address, headers=auditor, json={"text": "Refunded."})
        nothing = client.post(f"{INCIDENTS}/0/close", headers=auditor, json={"text": "x"})
        late = client.post(INCIDENTS, headers=auditor, json={**ask, "known": "2999-01-01"})
        odd = client.post(INCIDENTS, headers=auditor, json={**ask, "known": "yesterday"})
        unknown = client.post(INCIDENTS, headers=auditor, json={**ask, "runs": ["nothing"]})
        (listed,) = client.get(INCIDENTS, headers=auditor).json()["incidents"]

    assert opened.status_code == 201
    assert opened.json()["opened_by"].startswith("key/auditor/")
    assert closed.status_code == 200
    assert (twice.status_code, nothing.status_code) == (409, 404)
    assert (late.status_code, odd.status_code, unknown.status_code) == (422, 422, 404)
    assert (listed["known"], listed["text"]) == ("2026-01-02T03:04:05Z", "Paid twice.")
    assert listed["closing_text"] == "Refunded."
