import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../support/until.ts'

const PROGRAM = fileURLToPath(new URL('../support/stand-still.ts', import.meta.url))
const STOPPED_MS = 600

/** What a program finds that is stopped for a while. */
async function measure(): Promise<readonly number[]> {
  const child = spawn(process.execPath, [PROGRAM], { stdio: ['pipe', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  let printed = ''
  child.stdout.on('data', chunk => {
    printed += chunk
  })
  await until('it measures', () => printed.includes('measuring'))
  child.kill('SIGSTOP')
  await new Promise(resolve => setTimeout(resolve, STOPPED_MS))
  child.kill('SIGCONT')
  child.stdin.write('\n')
  await once(child, 'close')
  return JSON.parse(printed.split('\n')[1] ?? '[]')
}

test('a machine that stood still has kept its processes from running, also if none was waiting for a processor', async () => {
  for (const waitedMs of await measure()) expect(waitedMs).toBeGreaterThan(STOPPED_MS / 2)
})
