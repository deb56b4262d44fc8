import { SYNC_CALLS } from '../announcing/sync-calls.ts'
import { AUDIT_CALLS } from '../audit/index.ts'
import { BULK_CALLS } from '../keys/api/bulk-calls.ts'
import { EXPORT_CALLS } from '../keys/api/export-calls.ts'
import { IMPORT_CALLS } from '../keys/api/import-calls.ts'
import { KEY_CALLS } from '../keys/api/key-calls.ts'
import { KEY_OPERATION_CALLS } from '../keys/api/key-operation-calls.ts'
import { SEARCH_CALLS } from '../keys/api/search-calls.ts'
import type { AdminCall } from '../platform/http/admin-call.ts'
import { TOKEN_CALLS } from '../tokens/index.ts'
import { USAGE_CALLS } from '../usage/index.ts'
import { DELIVERY_CALLS } from '../webhooks/delivery-calls.ts'
import { WORKSPACE_WEBHOOK_CALLS } from '../webhooks/workspace-webhook-calls.ts'
import { OPENAPI_CALLS } from './openapi-calls.ts'

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
  ...DELIVERY_CALLS,
  ...WORKSPACE_WEBHOOK_CALLS,
  ...SYNC_CALLS,
  ...OPENAPI_CALLS,
]
