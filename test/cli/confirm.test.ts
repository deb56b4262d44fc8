import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { confirm } from '../../src/cli/output/terminal.ts'
import type { HostStreams } from '../../src/run/host.ts'

/** Answers a question with these keys. `keys-terminal.full.test.ts` does so at a real terminal. */
async function answered(keys: string): Promise<boolean> {
  const [input, output, errors] = [new PassThrough(), new PassThrough(), new PassThrough()]
  // Streams without what a terminal has beyond a stream.
  const confirmed = confirm({ input, output, errors } as unknown as HostStreams, 'Revoke it? [y/N] ')
  input.write(keys)
  return confirmed
}

test.each(['y', 'Y', 'yes', ' Yes '])('%j is a yes', async word => {
  expect(await answered(`${word}\r`)).toBe(true)
})

test.each(['n', 'no', '', 'ye', 'yes!', 'j'])('%j is a no', async word => {
  expect(await answered(`${word}\r`)).toBe(false)
})
