"""Calls a console with the client that openapi-python-client makes of the OpenAPI document."""

import datetime
import sys

from admin_client import AuthenticatedClient
from admin_client.api.default import (
    edit_key,
    get_key,
    get_key_usage,
    get_workspace_plan,
    issue_key,
    issue_token,
    list_keys,
    resume_key,
    revoke_all_keys,
    revoke_key,
    revoke_token,
    rotate_key,
    search_audit,
    set_workspace_plan,
    suspend_key,
    sync_keys,
)
from admin_client.models import (
    EditKeyBody,
    Error,
    GetKeyUsageStep,
    IssueKeyBody,
    IssueTokenBody,
    KeyState,
    RevokeKeyBody,
    RotateKeyBody,
    SetWorkspacePlanBody,
)

origin, token = sys.argv[1:]
client = AuthenticatedClient(base_url=f"{origin}/admin/v1", token=token)
# With microseconds, as the language writes an instant.
now = datetime.datetime.now(datetime.UTC)

issued = issue_key.sync("ws_1", client=client, body=IssueKeyBody(name="python", scopes=["files:read"]))
assert issued.secret.startswith("wsk_")
key = issued.key
assert key.state == KeyState.ACTIVE and key.expires_at > now and key.revoked_at is None
assert [each.id for each in list_keys.sync("ws_1", client=client).keys] == [key.id]
assert get_key.sync(key.id, client=client).key.name == "python"

edit = EditKeyBody(description="nightly import", expires_at=now + datetime.timedelta(days=30))
edited = edit_key.sync(key.id, client=client, body=edit, if_match=f'"{key.version}"').key
assert edited.description == "nightly import" and edited.expires_at < key.expires_at

# An optional body is left out, or has fields.
assert suspend_key.sync(key.id, client=client).key.state == KeyState.SUSPENDED
assert resume_key.sync(key.id, client=client).key.state == KeyState.ACTIVE
rotated = rotate_key.sync(key.id, client=client, body=RotateKeyBody(overlap_seconds=3600))
assert rotated.replaced.state == KeyState.RETIRING and rotated.secret
again = rotate_key.sync(rotated.key.id, client=client)
assert revoke_key.sync(again.key.id, client=client, wait="1").key.state == KeyState.REVOKED
assert revoke_key.sync(rotated.key.id, client=client, body=RevokeKeyBody()).key.state == KeyState.REVOKED

usage = get_key_usage.sync(key.id, client=client, from_=now - datetime.timedelta(days=3), step=GetKeyUsageStep.DAY)
assert all(point.by_code.to_dict() == {} for point in usage.usage)
assert get_workspace_plan.sync("ws_1", client=client).plan is None
assert set_workspace_plan.sync("ws_1", client=client, body=SetWorkspacePlanBody(plan=None)).changed == 0
entries = search_audit.sync(client=client, from_=now - datetime.timedelta(hours=1)).entries
assert "key.edited" in {entry.action for entry in entries}

made = issue_token.sync(
    client=client, body=IssueTokenBody(name="reader", permissions=["keys:read"], expires_in_days=1)
)
assert revoke_token.sync(made.token.id, client=client).token.id == made.token.id
assert revoke_all_keys.sync("ws_1", client=client).revoked >= 0
assert sync_keys.sync(client=client).synced >= 3

wrong = issue_key.sync("ws_1", client=client, body=IssueKeyBody(name="", scopes=[]))
assert isinstance(wrong, Error) and wrong.code.value == "invalid_request" and wrong.field == "name"
