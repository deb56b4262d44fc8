import { expect, test } from 'vitest'
import { identityHeaders } from '../../src/upstream/identity-headers.ts'

const grant = {
  id: 'key_01',
  workspaceId: 'ws_1',
  scopes: ['files:read', 'workspace:read'],
  hint: '',
  expiresAtMs: 1,
  revokedAtMs: null,
  suspendedAtMs: null,
  allowedCidrs: [],
  version: 1,
}
const identity = {
  'x-postern-workspace-id': 'ws_1',
  'x-postern-key-id': 'key_01',
  'x-postern-scopes': 'files:read workspace:read',
}

test('the headers of a proxy name the key, its workspace and its scopes, and hold an assertion if there is one', () => {
  expect(identityHeaders(grant, null)).toEqual(identity)
  expect(identityHeaders(grant, 'signed')).toEqual({ ...identity, 'x-postern-assertion': 'signed' })
})
