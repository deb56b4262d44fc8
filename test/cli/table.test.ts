import { describe, expect, test } from 'vitest'
import type { ShownKey } from '../../src/cli/client/client.ts'
import { keyColumns } from '../../src/cli/output/key-text.ts'
import { fitColumns, renderTable } from '../../src/cli/output/list.ts'
import { keyJson } from '../support/scripted-admin.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')
const SOON = new Date(NOW + 90 * 86_400_000).toISOString()
// The record of the scripted console has every field that the command line shows.
const key = (changes: Record<string, unknown> = {}) => keyJson({ expiresAt: SOON, ...changes }) as ShownKey

function linesAt(width: number, keys: readonly ShownKey[] = [key()], isWide = false): string[] {
  const paint = (_: string, text: string) => text
  return renderTable(keyColumns({ ofOneWorkspace: true }), keys, { width, isWide, nowMs: NOW, paint })
    .trimEnd()
    .split('\n')
}

const titlesAt = (width: number) => linesAt(width)[0]?.split(/ {2,}/)

describe('the table of keys', () => {
  test('shows every column where there is room', () => {
    expect(linesAt(200)).toEqual([
      'ID                              HINT       NAME              SCOPES                     STATE   CREATED     EXPIRES     EXPIRES (UTC)     LAST USED',
      'key_01JD0000000000000000000000  wsk_…x7Qf  billing importer  files:read workspace:read  active  2026-11-01  in 90 days  2027-02-18 12:00  Never used',
    ])
  })

  test('leaves out absolute dates first, and cuts nothing for them', () => {
    expect(titlesAt(140)).toEqual([
      'ID',
      'HINT',
      'NAME',
      'SCOPES',
      'STATE',
      'EXPIRES',
      'EXPIRES (UTC)',
      'LAST USED',
    ])
    expect(titlesAt(130)).toEqual(['ID', 'HINT', 'NAME', 'SCOPES', 'STATE', 'EXPIRES', 'LAST USED'])
    expect(linesAt(120)[1]).toContain('billing importer  files:read workspace:read')
  })

  test.each([60, 70, 80, 90, 100, 110, 120])('fits %d columns, with ids and hints in full', width => {
    const keys = [
      key(),
      key({ name: 'a name that is much longer than any table can show in one line', state: 'suspended' }),
      key({ lastUsedAt: new Date(NOW - 23 * 3_600_000).toISOString(), state: 'retiring' }),
      key({ name: '日本語の名前はとても長いです', scopes: ['x'.repeat(64), 'y'.repeat(64)] }),
    ]
    const lines = linesAt(width, keys)
    expect(lines).toHaveLength(5)
    for (const line of lines.slice(1)) expect(line).toMatch(/^key_\w{26} {2}wsk_…x7Qf/)
    const columns = lines.map(line => line.replace(/[\u3000-\u9fff]/g, '__').length)
    expect(Math.max(...columns)).toBeLessThanOrEqual(width)
  })

  test('at 80 columns shows what a person looks for', () => {
    expect(linesAt(80)).toEqual([
      'ID                              HINT       NAME              STATE   EXPIRES',
      'key_01JD0000000000000000000000  wsk_…x7Qf  billing importer  active  in 90 days',
    ])
  })

  test('-o wide shows all and cuts nothing', () => {
    const [head, line] = linesAt(40, [key({ name: 'n'.repeat(100) })], true)
    expect(head).toContain('WORKSPACE')
    expect(line).toContain('n'.repeat(100))
  })

  test('shows no expiry of a revoked key', () => {
    const [, line] = linesAt(200, [key({ state: 'revoked', revokedAt: '2026-11-20T00:00:00.000Z' })])
    expect(line).toMatch(/revoked {2}2026-11-01 {2}- {8}- {14}/)
    expect(line).not.toContain('in 90 days')
  })
})

test('columns that must stay stay, also where there is no room for them', () => {
  expect(fitColumns([{ width: 30 }, { width: 20, leaves: 1 }, { width: 9 }], 10)).toEqual([30, null, 9])
})
