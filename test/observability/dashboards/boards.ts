import type { Board } from './board.ts'
import { gatewayBoard } from './gateway-board.ts'
import { toGrafana } from './grafana.ts'
import { keysBoard } from './keys-board.ts'
import { objectivesBoard } from './objectives-board.ts'

export const BOARDS: readonly Board[] = [gatewayBoard, keysBoard, objectivesBoard]

export function fileOf(board: Board): URL {
  return new URL(`../../../helm/dashboards/${board.file}.json`, import.meta.url)
}

export function textOf(board: Board): string {
  return `${JSON.stringify(toGrafana(board), null, 2)}\n`
}
