"""Calls the whole admin API of a console with the client that openapi-python-client makes of the OpenAPI document."""

import datetime
import hashlib
import json
import sys

from admin_client import AuthenticatedClient
from admin_client.api.default import (
    check_edit,
    check_import,
    describe_admin_api,
    edit_key,
    export_audit,
    export_keys,
    export_refusals,
    find_key,
    get_key,
    get_key_usage,
    get_workspace_plan,
    get_workspace_usage,
    get_workspace_webhook,
    import_keys,
    issue_key,
    issue_token,
    list_deliveries,
    list_keys,
    list_near_limits,
    list_refusals,
    list_tokens,
    list_workspace_audit,
    list_workspace_webhook_deliveries,
    list_workspaces,
    remove_workspace_webhook,
    resume_key,
    revoke_all_keys,
    revoke_key,
    revoke_token,
    rotate_key,
    search_audit,
    search_keys,
    search_refusals,
    set_workspace_plan,
    set_workspace_webhook,
    suspend_key,
    sync_keys,
    test_workspace_webhook,
    whoami,
)
from admin_client.models import (
    CheckEditBody,
    CheckImportBody,
    EditKeyBody,
    Error,
    FindKeyBody,
    GetKeyUsageStep,
    ImportKeysBody,
    IssueKeyBody,
    IssueTokenBody,
    KeyState,
    RevokeKeyBody,
    RotateKeyBody,
    SetWorkspacePlanBody,
    SetWorkspaceWebhookBody,
)

origin, token = sys.argv[1:]
client = AuthenticatedClient(base_url=f"{origin}/admin/v1", token=token)
# With microseconds, as the language writes an instant.
now = datetime.datetime.now(datetime.UTC)


def digest_of(secret):
    return hashlib.sha256(secret.encode()).hexdigest()


def lines_of(text):
    return [json.loads(line) for line in text.split("\n") if line]


# Issue and find a key.
issued = issue_key.sync("ws_1", client=client, body=IssueKeyBody(name="python", scopes=["files:read"]))
assert issued.secret.startswith("wsk_")
key = issued.key
assert key.state == KeyState.ACTIVE and key.expires_at > now and key.revoked_at is None
assert [each.id for each in list_keys.sync("ws_1", client=client).keys] == [key.id]
assert get_key.sync(key.id, client=client).key.name == "python"
found = search_keys.sync(client=client, q="PYTH", count="1")
assert ([each.id for each in found.keys], found.total, found.has_more) == ([key.id], 1, False)
assert find_key.sync(client=client, body=FindKeyBody(digest=digest_of(issued.secret))).key.id == key.id
(workspace,) = list_workspaces.sync(client=client).workspaces
assert (workspace.workspace_id, workspace.keys.active) == ("ws_1", 1)

# Edit it.
planned = check_edit.sync(key.id, client=client, body=CheckEditBody(name="renamed")).key
assert (planned.name, planned.version) == ("renamed", key.version + 1)
edit = EditKeyBody(description="nightly import", expires_at=now + datetime.timedelta(days=30))
edited = edit_key.sync(key.id, client=client, body=edit, if_match=f'"{key.version}"').key
assert edited.description == "nightly import" and edited.expires_at < key.expires_at
late = edit_key.sync(key.id, client=client, body=edit, if_match=f'"{key.version}"')
assert isinstance(late, Error) and late.code.value == "precondition_failed"

# An optional body is left out, or has fields.
assert suspend_key.sync(key.id, client=client).key.state == KeyState.SUSPENDED
assert resume_key.sync(key.id, client=client).key.state == KeyState.ACTIVE
rotated = rotate_key.sync(key.id, client=client, body=RotateKeyBody(overlap_seconds=3600))
assert rotated.replaced.state == KeyState.RETIRING and rotated.secret
again = rotate_key.sync(rotated.key.id, client=client)
assert revoke_key.sync(again.key.id, client=client, wait="1").key.state == KeyState.REVOKED
assert revoke_key.sync(rotated.key.id, client=client, body=RevokeKeyBody()).key.state == KeyState.REVOKED

# Import and export keys.
entry = {
    "digest": digest_of("key of another system"),
    "hint": "…stem",
    "workspaceId": "ws_1",
    "name": "imported",
    "scopes": ["files:read"],
    "expiresAt": (now + datetime.timedelta(days=1)).isoformat(),
}
both = {"keys": [entry, {"digest": "none"}]}
checked = check_import.sync(client=client, body=CheckImportBody.from_dict(both))
assert [each.status.value for each in checked.results] == ["imported", "invalid"]
assert import_keys.sync(client=client, body=ImportKeysBody.from_dict(both)).imported == 1
exported = lines_of(export_keys.sync(client=client))
assert [each["digest"] for each in exported if each["name"] == "imported"] == [entry["digest"]]

# Usage, rejections and limits.
usage = get_key_usage.sync(key.id, client=client, from_=now - datetime.timedelta(days=3), step=GetKeyUsageStep.DAY)
assert all(point.by_code.to_dict() == {} for point in usage.usage)
assert get_workspace_usage.sync("ws_1", client=client).usage
refusals = list_refusals.sync("ws_1", client=client, key_id=key.id)
assert (refusals.refusals, refusals.sampled, refusals.has_more) == ([], False, False)
assert search_refusals.sync(client=client, code="rate_limited", request_id="r1").refusals == []
assert lines_of(export_refusals.sync(client=client, key_id=key.id)) == []
assert list_near_limits.sync(client=client, workspace_id="ws_1").limits == []

# The plan of the workspace.
assert get_workspace_plan.sync("ws_1", client=client).plan is None
assert set_workspace_plan.sync("ws_1", client=client, body=SetWorkspacePlanBody(plan=None)).changed == 0

# The audit log.
entries = search_audit.sync(client=client, from_=now - datetime.timedelta(hours=1)).entries
assert "key.edited" in {each.action for each in entries}
assert {each.id for each in list_workspace_audit.sync("ws_1", client=client).entries} <= {each.id for each in entries}
assert lines_of(export_audit.sync(client=client))[0]["action"] == "key.issued"

# The webhook of the workspace.
url = "https://8.8.8.8/in"
made = set_workspace_webhook.sync("ws_1", client=client, body=SetWorkspaceWebhookBody(url=url))
assert made.secret.startswith("whsec_")
assert get_workspace_webhook.sync("ws_1", client=client).webhook == made.webhook
assert remove_workspace_webhook.sync("ws_1", client=client).removed
# Without a webhook nothing is sent.
tested = test_workspace_webhook.sync("ws_1", client=client)
assert isinstance(tested, Error) and tested.code.value == "not_found"
assert list_workspace_webhook_deliveries.sync("ws_1", client=client).deliveries == []
assert list_deliveries.sync("ws_1", client=client).deliveries == []

# Admin tokens.
reader = issue_token.sync(
    client=client, body=IssueTokenBody(name="reader", permissions=["keys:read"], expires_in_days=1)
)
caller = whoami.sync(client=AuthenticatedClient(base_url=f"{origin}/admin/v1", token=reader.secret))
assert (caller.kind.value, [each.value for each in caller.permissions]) == ("token", ["keys:read"])
assert [each.id for each in list_tokens.sync(client=client).tokens] == [reader.token.id]
assert revoke_token.sync(reader.token.id, client=client).token.id == reader.token.id

assert revoke_all_keys.sync("ws_1", client=client).revoked >= 1
assert sync_keys.sync(client=client).synced >= 3
assert describe_admin_api.sync(client=client)["openapi"] == "3.1.0"

wrong = issue_key.sync("ws_1", client=client, body=IssueKeyBody(name="", scopes=[]))
assert isinstance(wrong, Error) and wrong.code.value == "invalid_request" and wrong.field == "name"
