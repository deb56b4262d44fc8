import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { runVitest } from '../support/run-vitest.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

test.skipIf(process.platform !== 'linux')(
  'a test of the demo that is chosen by its name leaves no demo behind, though the test that would stop it does not run',
  async () => {
    const file = 'test/blackbox/demo.full.test.ts'
    const name = 'the demo logs no failure while it starts'
    const words = ['--root', ROOT, '--mode', 'full', file, '-t', name]
    // In CI a run fails that leaves out a test, and this one leaves out all others.
    const { said, code } = await runVitest(words, { CI: '' })
    expect([code, said]).toEqual([0, expect.stringContaining('1 tests of 1 files passed and 0 failed')])
    expect(said).not.toContain('left these processes behind')
  },
)
