import { expect, test } from 'vitest'
import { explainRefusal } from '../../../src/console/usage/refusals-page.ts'
import { DENIAL_REASONS, denialRow } from '../../../src/domain/denial.ts'

test('the owner of a key learns which 404 it was, though the client must not', () => {
  const hidden = denialRow('unknown_route').text
  // A path that matches no route has no key.
  const explained = DENIAL_REASONS.filter(reason => reason !== 'unknown_route').map(explainRefusal)
  expect(explained).not.toContain(hidden)
  expect(explained).not.toContain(null)
  expect(explainRefusal('other_workspace')).toContain('another workspace')
})

test('a reason of a newer gateway has no words', () => {
  expect(explainRefusal('of_a_newer_gateway')).toBeNull()
  expect(explainRefusal('toString')).toBeNull()
})
