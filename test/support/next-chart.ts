import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CHART } from './chart.ts'

/** A change of a template: what to replace, and by what. */
export interface ChartEdit {
  readonly file: string
  readonly from: string | RegExp
  readonly to: string
}

/**
 * Makes the chart of a made-up next release: this one, with other versions.
 * @returns its folder, which the caller deletes
 */
export function nextChart(...edits: readonly ChartEdit[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'postern-next-chart-'))
  cpSync(CHART, folder, { recursive: true })
  const versions = ['version', 'appVersion'].map(name => ({
    file: 'Chart.yaml',
    from: new RegExp(`^${name}: .*$`, 'm'),
    to: `${name}: 99.0.0`,
  }))
  for (const { file, from, to } of [...versions, ...edits]) {
    const path = join(folder, file)
    const text = readFileSync(path, 'utf8')
    const changed = text.replace(from, to)
    if (changed === text) throw new Error(`${file} has nothing like ${from}`)
    writeFileSync(path, changed)
  }
  return folder
}
