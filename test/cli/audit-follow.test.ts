import { expect, test } from 'vitest'
import { NOTHING_PRINTED, newEntries } from '../../src/cli/commands/audit.ts'

const entry = (id: string, at: string) => ({
  ...{ id, at: `2027-02-18T${at}.000Z`, workspaceId: null, actor: 'a', action: 'token.issued' },
  ...{ keyId: null, detail: {} },
})
const clockAt = (time: string) => Date.parse(`2027-02-18T${time}.000Z`)

test('an entry of a console whose clock is behind is printed, too', () => {
  const [one, late, two] = [entry('1', '09:00:00'), entry('2', '09:00:05'), entry('3', '09:00:09')]
  const nowMs = clockAt('09:00:09')
  const first = newEntries(NOTHING_PRINTED, [two, one], nowMs)
  expect(first.entries).toEqual([one, two])
  const second = newEntries(first.printed, [two, late, one], nowMs)
  expect(second.entries).toEqual([late])
  expect(newEntries(second.printed, [two, late, one], nowMs).entries).toEqual([])
})

test('entries are printed once each also after the clock of the console was set back', () => {
  const [one, ahead, again] = [entry('1', '10:00:00'), entry('2', '10:00:20'), entry('3', '10:00:05')]
  const first = newEntries(NOTHING_PRINTED, [ahead, one], clockAt('10:00:20'))
  expect(first.printed.fromMs).toBe(clockAt('10:00:10'))
  // Read from 10:00:10 on, where the new entry is not.
  const second = newEntries(first.printed, [ahead], clockAt('10:00:06'))
  expect(second.entries).toEqual([])
  expect(second.printed.fromMs).toBe(clockAt('09:59:56'))
  expect(newEntries(second.printed, [again, ahead, one], clockAt('10:00:07')).entries).toEqual([again])
})

test('after the clock was set back, entries from before are not printed as new ones, also those beyond --limit', () => {
  const beyondLimit = [entry('2', '09:50:00'), entry('1', '09:30:00')]
  const [newest, again] = [entry('3', '10:00:00'), entry('4', '09:00:02')]
  const first = newEntries(NOTHING_PRINTED, [newest], clockAt('10:00:00'))
  const second = newEntries(first.printed, [newest], clockAt('09:00:01'))
  const read = [newest, ...beyondLimit, again]
  const third = newEntries(second.printed, read, clockAt('09:00:02'))
  expect([...second.entries, ...third.entries]).toEqual([again])
  expect(newEntries(third.printed, read, clockAt('09:29:55')).entries).toEqual([])
})
