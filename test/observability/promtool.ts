import { execFile } from 'node:child_process'

/** What `promtool test rules` says of a file of test cases. */
export function testRules(file: string): Promise<{ readonly ok: boolean; readonly output: string }> {
  const { promise, resolve } = Promise.withResolvers<{ ok: boolean; output: string }>()
  execFile('promtool', ['test', 'rules', file], (error, stdout, stderr) =>
    resolve({ ok: error === null, output: stdout + stderr }),
  )
  return promise
}
