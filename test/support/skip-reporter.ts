import type { Reporter, TestModule } from 'vitest/node'

/** Where nothing may be skipped, a skipped test is a failure: it would say "green" of what nobody looked at. */
export class SkipReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (process.env['CI'] !== 'true') return
    const skipped = modules.flatMap(module => [...module.children.allTests('skipped')])
    if (skipped.length === 0) return
    const names = skipped.map(test => `  ${test.module.relativeModuleId} > ${test.fullName}`)
    process.stdout.write(`\nWith CI=true nothing may be skipped, but these were:\n${names.join('\n')}\n`)
    process.exitCode = 1
  }
}
