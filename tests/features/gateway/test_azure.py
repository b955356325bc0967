"""Azure OpenAI through the gateway: a deployment is priced as the model that it is said to be."""

from pathlib import Path
from typing import Any

import pytest

from forum.models.prices import BilledTokens, price_by_name
from tests.features.gateway.harness import PROVIDER_KEY, TOKEN, Harness, harness
from tests.features.gateway.test_relay import CENT, dollars

DEPLOYMENT = "/azure/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50}


def post(gateway: Harness, path: str, **members: Any) -> Any:  # noqa: ANN401
    """Send a request as the SDK does."""
    return gateway.post(path, BODY | members, **{"authorization": "", "api-key": TOKEN})


@pytest.mark.parametrize("members", [{}, {"model": "my-deployment"}, {"stream": True}])
def test_a_deployment_costs_what_its_model_costs(tmp_path: Path, members: dict[str, Any]) -> None:
    """Whether the body names it or not."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        gateway.provider.answering_model = "gpt-4o-mini-2024-07-18"
        reply = post(gateway, DEPLOYMENT, **members)

        assert reply.status_code == 200, reply.text
        (sent,) = gateway.provider.requests
        assert sent["path"] == "/openai/deployments/my-deployment/chat/completions"
        assert sent["scope"]["query_string"] == b"api-version=2024-10-21"
        assert sent["headers"]["api-key"] == PROVIDER_KEY
        assert "authorization" not in sent["headers"]
        (bill,) = gateway.bills()
        (step,) = gateway.entries("report.step/1")
        billed = price_by_name("gpt-4o-mini").cost(BilledTokens(bill["in"], bill["out"]))
        assert (step.facts.usd, step.facts.provider) == (billed, "azure")
        assert step.facts.model == "my-deployment"


def test_a_deployment_without_a_model_has_no_price(tmp_path: Path) -> None:
    """Nor has one whose body names another model, or a path that is not known."""
    with harness(tmp_path, dollars(CENT)) as gateway:
        unknown = post(gateway, DEPLOYMENT.replace("my-", "other-"))
        assert unknown.status_code == 403
        assert "the price of the model 'other-deployment' is not known" in unknown.text
        assert post(gateway, DEPLOYMENT, model="gpt-4o").status_code == 400
        images = "/azure/openai/deployments/my-deployment/images/generations"
        assert "--allow path:openai" in post(gateway, images).text
        assert gateway.provider.requests == []
