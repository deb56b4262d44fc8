import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { end } from './ready.ts'

const VITEST = fileURLToPath(new URL('../../node_modules/vitest/vitest.mjs', import.meta.url))

/** Runs tests as another run does, in a group of its own, so that it sees no process of the tests here. @param env beside that of the tests here */
export async function runVitest(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ said: string; code: number | null }> {
  const run = spawn(process.execPath, [VITEST, 'run', ...words], {
    detached: true,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => end(run))
  const [said, [code]] = await Promise.all([text(run.stdout), once(run, 'exit')])
  return { said, code }
}
