import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runVitest } from '../support/run-vitest.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const REPORTER = import.meta.resolve('../support/left-behind-reporter.ts')
const GRACE_MS = 200

const CONFIGURATION = `
import { LeftBehindReporter } from '${REPORTER}'
export default {
  test: { globals: true, include: ['*.test.mjs'], reporters: [new LeftBehindReporter(${GRACE_MS})] },
}`

/** The second child says nothing of its run, so that it counts only once its worker has ended. */
const LEAVES_TWO = `
import { spawn } from 'node:child_process'
const leave = (name, options) =>
  spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)', name], { stdio: 'ignore', ...options }).unref()
test('leaves two children behind', () => {
  leave('child-with-environment', { detached: true })
  leave('child-without-environment', { env: {} })
})`

test.skipIf(process.platform !== 'linux')(
  'a run whose tests leave processes behind ends them, names them and fails',
  async () => {
    const directory = temporaryDirectory()
    const configuration = join(directory, 'vitest.config.mjs')
    writeFileSync(configuration, CONFIGURATION)
    writeFileSync(join(directory, 'leaves-two.test.mjs'), LEAVES_TWO)
    const { said, code } = await runVitest(['--root', directory, '--config', configuration])
    const named = said.match(/child-with(?:out)?-environment$/gm) ?? []
    expect([code, named.toSorted()]).toEqual([1, ['child-with-environment', 'child-without-environment']])
  },
)
