"""A server as the SDK makes them: over pipes, or at an address of loopback with a token."""

import os
import socket
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, Image
from pydantic import AnyHttpUrl

TOKEN = "of-the-friendly-server"  # noqa: S105  # it guards nothing


class OneToken(TokenVerifier):
    """Lets in who has the token."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose token it is."""
        if token != TOKEN:
            return None
        return AccessToken(token=token, client_id="test", scopes=["use"], resource=self._address)


def add_tools(server: MCPServer) -> None:
    """Offer what the tests ask for."""

    @server.tool(structured_output=False)
    def echo(text: str, context: Context) -> str:
        """Say the same, and the key."""
        meta = context.request_context.meta or {}
        return f"{meta.get('forum/key')} {text}"

    notes: list[str] = []

    @server.tool(structured_output=False)
    def note(text: str) -> str:
        """Keep a note in memory, and say who keeps it, and all notes."""
        notes.append(text)
        return f"{os.getpid()}: {' '.join(notes)}"

    @server.tool(structured_output=False)
    def crash() -> str:
        """End without an answer."""
        os._exit(3)

    @server.tool()
    def environment() -> dict[str, str]:
        """Say all that is in the environment."""
        return dict(os.environ)

    @server.tool(structured_output=False)
    def picture() -> Image:
        """Show something."""
        return Image(data=bytes(1000), format="png")

    @server.tool(structured_output=False)
    def refuse() -> str:
        """Fail."""
        raise ValueError("not today")


def main() -> None:
    """Serve over pipes; or, if a file is named, at an address that is written into it."""
    if len(sys.argv) < 2:
        server = MCPServer("friendly", log_level="ERROR")
        add_tools(server)
        server.run("stdio")
        return
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    url = AnyHttpUrl(address)
    auth = AuthSettings(
        issuer_url=url,
        resource_server_url=url,
        required_scopes=["use"],
        validate_token_resource=True,
    )
    server = MCPServer("friendly", log_level="ERROR", token_verifier=OneToken(address), auth=auth)
    add_tools(server)
    file = Path(sys.argv[1])
    file.with_suffix(".new").write_text(address)
    file.with_suffix(".new").rename(file)
    server.run("streamable-http", host="127.0.0.1", port=port, stateless_http=True)


if __name__ == "__main__":
    main()
