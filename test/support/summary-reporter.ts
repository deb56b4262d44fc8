import { join } from 'node:path'
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import { namesIn } from './importing-tests.ts'
import { redisVersion } from './redis-program.ts'
import { summaryOf, type TestedFile } from './summary.ts'
import { has, TOOLS, type Tool } from './tools.ts'

/** Says last what was tested, with what, and what was left out. With CI=true a skipped test fails the run. */
export class SummaryReporter implements Reporter {
  #namePattern: string | null = null

  onInit({ config }: Vitest): void {
    this.#namePattern = config.testNamePattern?.source ?? null
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // Nothing ran, and vitest said why.
    if (modules.length === 0) return
    const lines = summaryOf({
      files: modules.map(testedFile),
      seconds: Math.round(process.uptime()),
      withWhat: `${redisVersion()} on Node ${process.version}`,
      namePattern: this.#namePattern,
    })
    const skipped = modules.flatMap(module => [...module.children.allTests('skipped')])
    if (skipped.length > 0 && process.env['CI'] === 'true') {
      lines.push('With CI=true no test may be left out, but these were:')
      lines.push(...skipped.map(test => `  ${test.module.relativeModuleId} > ${test.fullName}`))
      process.exitCode = 1
    }
    process.stdout.write(`\n${lines.join('\n')}\n`)
  }
}

function testedFile(module: TestModule): TestedFile {
  const count = (state: 'passed' | 'failed' | 'skipped') => [...module.children.allTests(state)].length
  const file = join(module.relativeModuleId)
  const skipped = count('skipped')
  return {
    file,
    passed: count('passed'),
    failed: count('failed'),
    skipped,
    isBroken: module.errors().length > 0,
    missing: skipped === 0 ? [] : missingToolsOf(file),
  }
}

/** Of those that a test file names, or one that it imports. */
function missingToolsOf(file: string): Tool[] {
  const names = namesIn(file, Object.keys(TOOLS))
  return names.flatMap(name => {
    const tool = TOOLS[name]
    return tool === undefined || has(tool) ? [] : [tool]
  })
}
