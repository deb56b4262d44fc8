import { expect, test } from 'vitest'
import { hasVisible } from '../../../src/domain/form/text.ts'
import { problemOfKeyName } from '../../../src/domain/key/key-fields.ts'
import { planImport, planIssue } from '../../../src/domain/key/key-life.ts'
import { INVISIBLE_NAMES } from '../../support/invisible-names.ts'
import { NOW_MS } from '../examples.ts'

const context = {
  ...{
    id: 'key_01',
    workspaceId: 'ws_1',
    hint: 'wsk_…abcd',
    keyPrefix: 'wsk_',
    knownPlans: ['business', 'free'],
    workspacePlan: null,
    createdBy: 'admin-token',
  },
  ...{ knownScopes: ['files:read'], nowMs: NOW_MS },
}

test.each(Object.entries(INVISIBLE_NAMES))(
  'a name of %s alone is rejected, and the field is named',
  (_, name) => {
    expect(hasVisible(name)).toBe(false)
    const rejected = {
      ok: false,
      field: 'name',
      expected: expect.stringContaining('at least one visible character'),
    }
    expect(planIssue({ name, scopes: ['files:read'] }, context)).toEqual(rejected)
    const imported = { digest: 'a'.repeat(64), hint: 'abcd', workspaceId: 'ws_1', scopes: ['files:read'] }
    expect(planImport({ ...imported, name, expiresAt: '2026-12-01T00:00:00Z' }, context)).toEqual(rejected)
  },
)

test.each([
  'build server',
  'é',
  'e\u0301',
  '👍',
  '❤\ufe0f',
  '👩\u200d💻',
  '1\ufe0f\u20e3',
  '🇩🇪',
  'שלום',
  'مفتاح',
  'क्षि',
  '鍵',
  '한',
  '-',
  '\u200bx',
])('%s is a name', name => {
  expect(problemOfKeyName(name)).toBeNull()
})
