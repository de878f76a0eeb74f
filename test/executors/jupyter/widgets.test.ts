import { expect, test } from 'vitest';
import { Widgets } from '../../../executors/jupyter/widgets.ts';

function widgetsOf(models: Readonly<Record<string, object>>): Widgets {
  const widgets = new Widgets();
  for (const [id, state] of Object.entries(models))
    widgets.take({
      type: 'comm_open',
      parent: '',
      content: { comm_id: id, target_name: 'jupyter.widget', data: { state } },
    });
  return widgets;
}

const view = (id: string) => ({ 'application/vnd.jupyter.widget-view+json': { model_id: id } });

test('a box that holds itself many times has a text all the same', () => {
  const children = ['label', ...Array.from({ length: 100 }, () => 'box')].map((id) => `IPY_MODEL_${id}`);
  const widgets = widgetsOf({
    label: { _model_name: 'LabelModel', value: 'x' },
    box: { _model_name: 'HBoxModel', children },
  });
  // With all that is in it it would be 100 ** 8 of them.
  expect(widgets.textOf(view('box'))).toMatch(/^x{2,1000}$/);
});
