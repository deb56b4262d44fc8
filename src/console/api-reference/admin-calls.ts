import { Type } from 'typebox'
import { ANNOUNCING_CALLS } from '../announcing/index.ts'
import { AUDIT_CALLS } from '../audit/index.ts'
import { KEY_CALLS } from '../keys/index.ts'
import { type AdminCall, declareCalls } from '../platform/http/calls.ts'
import { TOKEN_CALLS } from '../tokens/index.ts'
import { USAGE_CALLS } from '../usage/index.ts'
import { WEBHOOK_CALLS } from '../webhooks/index.ts'
import { WORKSPACE_CALLS } from '../workspaces/index.ts'

interface DocumentParts {
  readonly document: Readonly<Record<string, unknown>>
}

const adminCall = declareCalls<DocumentParts>()

/** The document of the admin API, without the prefix. Like the paths themselves, only callers with a token or session see it. */
export const OPENAPI_CALLS: readonly AdminCall<DocumentParts>[] = [
  adminCall({
    id: 'describeAdminApi',
    method: 'GET',
    url: '/openapi.json',
    operation: 'openapi',
    permission: null,
    workspaces: 'own',
    summary: 'This document',
    status: 200,
    response: Type.Record(Type.String(), Type.Unknown()),
    handle: async ({ document }) => document,
  }),
]

/** The admin API, in the order of its document. */
export const ADMIN_CALLS: readonly AdminCall[] = [
  ...KEY_CALLS,
  ...WORKSPACE_CALLS,
  ...USAGE_CALLS,
  ...AUDIT_CALLS,
  ...TOKEN_CALLS,
  ...WEBHOOK_CALLS,
  ...ANNOUNCING_CALLS,
  ...OPENAPI_CALLS,
]
