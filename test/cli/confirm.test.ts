import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { confirm, requirePrompt, requireYes } from '../../src/cli/output/terminal.ts'
import type { HostStreams } from '../../src/run/host.ts'

/** Streams without what a terminal has beyond a stream. */
function startStreams() {
  const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
  return { input, streams: { input, output, errors } as unknown as HostStreams }
}

/** Answers a question with these keys. `keys-terminal.full.test.ts` does so at a real terminal. */
async function answered(keys: string): Promise<boolean> {
  const { input, streams } = startStreams()
  const confirmed = confirm(streams, 'Revoke it? [y/N] ')
  input.write(keys)
  return confirmed
}

test.each(['y', 'Y', 'yes', ' Yes '])('%j is a yes', async word => {
  expect(await answered(`${word}\r`)).toBe(true)
})

test.each(['n', 'no', '', 'ye', 'yes!', 'j'])('%j is a no', async word => {
  expect(await answered(`${word}\r`)).toBe(false)
})

test('a question without a terminal, and one that is declined, name what would have been done', async () => {
  const { input, streams } = startStreams()
  expect(() => requirePrompt(streams, 'change the plan')).toThrow('add --yes to change the plan without one')
  const declined = requireYes(streams, 'Change the plan? [y/N] ', 'changed')
  input.write('n\r')
  await expect(declined).rejects.toThrow('Nothing was changed')
})
