import { writeFileSync } from 'node:fs'
import type { Series } from '../../support/prometheus-server.ts'
import { DASHBOARDS, pictureOf } from '../dashboards.ts'
import { drawDashboard } from './draw-dashboard.ts'
import { runWatched } from './watched-run.ts'

/** `npm run pictures`: draws each dashboard from a run like that of the test. */
const run = await runWatched()
try {
  for (const dashboard of DASHBOARDS) {
    const values: Series[][][][] = []
    for (const row of dashboard.rows)
      values.push(await Promise.all(row.panels.map(panel => run.valuesOf(panel))))
    const picture = drawDashboard(dashboard, (row, panel) => values[row]?.[panel] ?? [], run)
    writeFileSync(pictureOf(dashboard), picture)
  }
} finally {
  await run.stop()
}
