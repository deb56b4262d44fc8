import { expect, test } from 'vitest'
import { AcceptedTokens } from '../../src/console/platform/http/authenticate-programs.ts'
import { ManualClock } from '../support/manual-clock.ts'

const [YOUNG, OLD] = ['young-token-of-the-test', 'old-token-of-the-test']

function create(first: readonly string[]) {
  const clock = new ManualClock()
  const said: object[] = []
  let list = first
  const tokens = new AcceptedTokens({
    setting: 'console.adminToken',
    tokens: () => list,
    logger: { info: (fields: object) => void said.push(fields) },
    clock,
  })
  return {
    tokens,
    clock,
    said,
    reload: (next: readonly string[]) => {
      list = next
    },
  }
}

test('every token of the list is accepted, and no other text', () => {
  const { tokens, reload } = create([YOUNG, OLD])
  expect([YOUNG, OLD, `${YOUNG},${OLD}`, '', 'x'].map(text => tokens.accept(text))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ])
  reload([YOUNG])
  expect([tokens.accept(YOUNG), tokens.accept(OLD)]).toEqual([true, false])
  reload([])
  expect([tokens.accept(YOUNG), tokens.accept('')]).toEqual([false, false])
})

test('while there are several, the log says which are in use: the old one every minute', () => {
  const { tokens, clock, said, reload } = create([OLD])
  tokens.accept(OLD)
  expect(said).toEqual([])
  reload([YOUNG, OLD])
  for (const token of [YOUNG, OLD, YOUNG, OLD, 'wrong']) tokens.accept(token)
  const [first, second] = [
    { setting: 'console.adminToken', position: 1, of: 2 },
    { setting: 'console.adminToken', position: 2, of: 2 },
  ]
  expect(said).toEqual([first, second])
  clock.advance(60_000)
  for (const token of [YOUNG, OLD]) tokens.accept(token)
  expect(said).toEqual([first, second, second])
})
