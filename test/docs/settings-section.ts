import { readFileSync } from 'node:fs'
import { describeSettings } from '../../src/config/document.ts'
import { DEFAULTS_FILE } from '../../src/config/load.ts'

export const README = new URL('../../README.md', import.meta.url)

const BEGIN = '<!-- settings -->'
const END = '<!-- /settings -->'

/** The README with its table of settings made anew; all around the two markers stays as it is. */
export function withCurrentSettings(readme: string): string {
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin < 0 || end < begin) throw new Error(`README.md must hold ${BEGIN} and, after it, ${END}`)
  const table = describeSettings(readFileSync(DEFAULTS_FILE, 'utf8'))
  return `${readme.slice(0, begin)}${BEGIN}\n\n${table}\n${readme.slice(end)}`
}
