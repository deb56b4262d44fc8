import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const COMMAND = fileURLToPath(new URL('../../src/bin/postern', import.meta.url))
/** What a system has of its own: none of the checkout’s programs. */
const env = { PATH: '/usr/bin:/bin' }

test('the command of a checkout runs in every folder, through a link, with the Node of the checkout', () => {
  const link = join(temporaryDirectory(), 'postern')
  symlinkSync(COMMAND, link)
  expect(execFileSync(link, ['--version'], { cwd: '/', env, encoding: 'utf8' })).toBe('0.1.0\n')
})

test('in a checkout without packages it says what to run, and where', () => {
  const checkout = temporaryDirectory()
  cpSync(COMMAND, join(checkout, 'src/bin/postern'))
  const { status, stdout, stderr } = spawnSync(join(checkout, 'src/bin/postern'), ['--version'], {
    env,
    encoding: 'utf8',
  })
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toContain(`run npm ci in ${checkout}`)
})
