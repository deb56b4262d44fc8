import { Type } from 'typebox'
import { SYNC_CALLS } from '../announcing/sync-calls.ts'
import { AUDIT_CALLS } from '../audit/index.ts'
import { BULK_CALLS } from '../keys/api/bulk-calls.ts'
import { EXPORT_CALLS } from '../keys/api/export-calls.ts'
import { IMPORT_CALLS } from '../keys/api/import-calls.ts'
import { KEY_CALLS } from '../keys/api/key-calls.ts'
import { KEY_OPERATION_CALLS } from '../keys/api/key-operation-calls.ts'
import { SEARCH_CALLS } from '../keys/api/search-calls.ts'
import { type AdminCall, declareCalls } from '../platform/http/admin-call.ts'
import { TOKEN_CALLS } from '../tokens/index.ts'
import { USAGE_CALLS } from '../usage/index.ts'
import { WEBHOOK_CALLS } from '../webhooks/index.ts'

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
  ...KEY_OPERATION_CALLS,
  ...KEY_CALLS,
  ...SEARCH_CALLS,
  ...BULK_CALLS,
  ...EXPORT_CALLS,
  ...IMPORT_CALLS,
  ...USAGE_CALLS,
  ...AUDIT_CALLS,
  ...TOKEN_CALLS,
  ...WEBHOOK_CALLS,
  ...SYNC_CALLS,
  ...OPENAPI_CALLS,
]
