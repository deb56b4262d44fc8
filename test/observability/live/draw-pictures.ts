import { writeFileSync } from 'node:fs'
import type { Series } from '../../support/prometheus-server.ts'
import { BOARDS } from '../dashboards/boards.ts'
import { drawBoard } from './draw-board.ts'
import { runWatched } from './watched-run.ts'

/** `npm run pictures`: a picture of each dashboard for the README, from a run as the test makes it. */
const run = await runWatched()
try {
  for (const board of BOARDS) {
    const values: Series[][][][] = []
    for (const row of board.rows) values.push(await Promise.all(row.panels.map(panel => run.valuesOf(panel))))
    const picture = drawBoard(board, (row, panel) => values[row]?.[panel] ?? [], run)
    writeFileSync(new URL(`../../../helm/dashboards/${board.file}.svg`, import.meta.url), picture)
  }
} finally {
  await run.stop()
}
