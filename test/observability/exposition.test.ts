import { expect, test } from 'vitest'
import { Exposition } from '../../src/observability/exposition.ts'

function counted() {
  let renderings = 0
  const exposition = new Exposition(async () => String(++renderings))
  return { exposition, renderings: () => renderings }
}

test('one who asks now and then is answered at once, each time anew', async () => {
  const { exposition } = counted()
  expect([await exposition.text(), await exposition.text(), await exposition.text()]).toEqual(['1', '2', '3'])
})

test('those who ask together are answered by one rendering', async () => {
  const { exposition } = counted()
  expect(await Promise.all([exposition.text(), exposition.text()])).toEqual(['1', '1'])
})

test('what was rendered before a question is never the answer to it', async () => {
  const { exposition, renderings } = counted()
  for (let question = 0; question < 13; question++) {
    const before = renderings()
    expect(Number(await exposition.text())).toBeGreaterThan(before)
  }
})
