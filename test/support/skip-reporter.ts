import type { Reporter, TestModule } from 'vitest/node'

/** With CI=true a skipped test fails the run, because a green run would hide it. */
export class SkipReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (process.env['CI'] !== 'true') return
    const skipped = modules.flatMap(module => [...module.children.allTests('skipped')])
    if (skipped.length === 0) return
    const names = skipped.map(test => `  ${test.module.relativeModuleId} > ${test.fullName}`)
    process.stdout.write(`\nWith CI=true no test may be skipped, but these were:\n${names.join('\n')}\n`)
    process.exitCode = 1
  }
}
