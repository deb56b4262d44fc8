import type { Reporter, TestModule } from 'vitest/node'
import { redisVersion } from './redis-program.ts'
import { missingTools } from './tools.ts'

/** Says last what was tested, with what, and what was left out. With CI=true a skipped test fails the run. */
export class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    // The setup failed, and said why: there may be no server whose version could be asked.
    if (modules.length === 0) return
    const tests = modules.flatMap(module => [...module.children.allTests()])
    const skipped = tests.filter(test => test.result().state === 'skipped')
    const failed = tests.filter(test => test.result().state === 'failed')
    const seconds = Math.round(process.uptime())
    const passed = tests.length - skipped.length - failed.length
    const lines = [
      `${passed} tests of ${modules.length} files passed and ${failed.length} failed, in ${seconds} s with ${redisVersion()} on Node ${process.version}`,
    ]
    const missing = missingTools()
    if (skipped.length > 0)
      lines.push(
        `${skipped.length} tests were left out${missing === '' ? '' : `. Missing tools: ${missing}`}`,
      )
    if (skipped.length > 0 && process.env['CI'] === 'true') {
      lines.push('With CI=true no test may be left out, but these were:')
      lines.push(...skipped.map(test => `  ${test.module.relativeModuleId} > ${test.fullName}`))
      process.exitCode = 1
    }
    process.stdout.write(`\n${lines.join('\n')}\n`)
  }
}
