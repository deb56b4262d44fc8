import { expect, test } from 'vitest'
import { CHAIN_START, chainRows } from '../../../src/console/platform/audit/chain.ts'
import { deriveAuditKeys, signQueued } from '../../../src/console/platform/audit/mac.ts'

const KEYS = deriveAuditKeys([Buffer.alloc(32, 1)])
const ENTRY = {
  id: 'audit_01KANXQ4V0000000000000000A',
  workspace_id: 'ws_1',
  at_ms: Date.parse('2026-11-20T09:00:00Z'),
  actor: 'admin-token',
  action: 'key.issued',
  key_id: 'key_01KANXQ4V0000000000000000A',
  detail: '{"name":"importer"}',
}

test('an audit entry that an earlier release wrote stays genuine: its hash and its signatures never change', () => {
  const [row] = chainRows(CHAIN_START, [ENTRY], KEYS)
  const queued = signQueued(KEYS, ENTRY)
  const signedBy = 'ef3d9ab1756d6eca'
  expect(row).toMatchObject({
    hash: 'c0887d23591b40e923f139d03f943bcaee2f2a44bd299d762202643d25a2262b',
    signed_by: signedBy,
    mac: 'PKApZQqz4e-lgS63E8o5nnbN-IxmnoC_ER7cooEqU2Y',
  })
  expect(queued).toEqual({ signed_by: signedBy, mac: 'xIRi1DOC6fD9NlYXbjKQ8HcBbZB8LzJOmT7dKlrR8pw' })
})
