import type { UsageRequest } from '../../src/keys/usage/usage-counts.ts'

/** A forwarded request of `key_1`, with the fields that a test changes. */
export function usageRequest(changes: Partial<UsageRequest> = {}): UsageRequest {
  return {
    keyId: 'key_1',
    workspaceId: 'ws_1',
    route: 'files',
    requestId: 'request-1',
    clientAddress: '192.0.2.77',
    reason: null,
    truncated: false,
    ...changes,
  }
}
