import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const HOST = resolve('src/run/host.ts')

test('a log file that is gone for good, as on a lost remote disk, does not end the process', () => {
  const fd = openSync(join(temporaryDirectory(), 'log'), 'w')
  onTestFinished(() => closeSync(fd))
  // A closed file fails each call on it, as a stale handle of NFS does.
  const script = `
    import { closeSync } from 'node:fs'
    import { openStandardOutput } from ${JSON.stringify(HOST)}
    const output = openStandardOutput(() => process.stdout)
    closeSync(1)
    output.on('error', () => {
      output.reopen().on('error', ({ code }) => console.error('still running', code)).write('second')
    })
    output.write('first')`
  const words = ['--input-type=module', '--eval', script]
  const { status, stderr } = spawnSync(process.execPath, words, {
    stdio: ['ignore', fd, 'pipe'],
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, 'still running EBADF\n'])
})
