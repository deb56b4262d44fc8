import { readFileSync } from 'node:fs'
import { chartReadme } from './chart-readme.ts'
import { chartSettings } from './chart-settings.ts'
import { chartValuesSchema } from './chart-values-schema.ts'

export const CHART = new URL('../../helm/', import.meta.url)

/** Generated files of the chart. */
export const chartFiles: readonly { readonly file: URL; make(): string }[] = [
  { file: new URL('files/settings.json', CHART), make: chartSettings },
  { file: new URL('values.schema.json', CHART), make: chartValuesSchema },
  {
    file: new URL('README.md', CHART),
    make: () =>
      chartReadme(
        readFileSync(new URL('README.md', CHART), 'utf8'),
        readFileSync(new URL('values.yaml', CHART), 'utf8'),
      ),
  },
]
