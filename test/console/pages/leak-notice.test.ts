import { expect, test } from 'vitest'
import { leakNotice } from '../../../src/console/keys/key-page.ts'
import type { KeyView } from '../../../src/console/keys/key-view.ts'
import type { AuditEntry } from '../../../src/console/platform/audit/entries.ts'
import { NOW_MS } from '../../support/stored-keys.ts'

const MINUTE_MS = 60_000

function reported(foundAt: string | null): AuditEntry {
  const detail = { reason: 'leak', foundAt }
  const what = { actor: 'leaks', action: 'key.reported', keyId: 'key_1', workspaceId: 'ws_1' } as const
  return { id: 'audit_1', atMs: NOW_MS - 5 * MINUTE_MS, ...what, detail }
}

function noticeOf(leaks: readonly AuditEntry[], state: KeyView['state'] = 'active'): string {
  // The notice reads nothing else of the key.
  return String(leakNotice({ key: { state } as KeyView, leaks }, NOW_MS))
}

test('a key that was found by strangers is shown with when and where, which is no link', () => {
  const text = noticeOf([reported('https://example.com/<b>')])
  expect(text).toContain('5 minutes ago')
  expect(text).toContain(
    ', found at <span class="breaks"><bdi>https://example.com/&lt;b&gt;</bdi></span></li>',
  )
  expect(text).not.toContain('href')
  expect(text).toContain('Replace it in your clients, then revoke it.')
})

test('a report without a place is shown with its time alone, and a key that has ended needs no advice', () => {
  const text = noticeOf([reported(null)], 'revoked')
  expect(text).toMatch(/<li><time.*5 minutes ago<\/time>\)<\/li>/)
  expect(text).not.toMatch(/found at|revoke it/)
  expect(noticeOf([])).toBe('null')
})
