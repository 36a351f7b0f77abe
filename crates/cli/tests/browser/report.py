"""What a person does with a report, in a real browser: report.py CHROMIUM PAGE...

Every test goes over all pages. Whatever a page asks for beside its own file, and whatever it logs, fails it.
"""

import contextlib
import functools
import itertools
import pathlib
import sys
import unicodedata
import unittest

import pypdf
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

CHROMIUM = sys.argv[1]
PAGES = [pathlib.Path(page).resolve() for page in sys.argv[2:]]
WIDE = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 800}

# WCAG 2.2 up to AA, and what is good practice besides.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# What of the drawings must not change when a line is hidden: where everything else lies.
DRAWN = """() => [...document.querySelectorAll('.plot svg')].map(svg =>
    [...svg.querySelectorAll('text, polyline, path')].map(e => e.outerHTML.replace(/ off\\b/, '')).join())"""

# Figures in which a line of this name is seen, and is not.
SEEN = """name => [...document.querySelectorAll('svg [data-line]')]
    .filter(e => e.dataset.line === name).map(e => getComputedStyle(e).display !== 'none')"""

FOLDED = "details:not([open]) > summary"
STATUS = "() => document.querySelector('main > [role=status]').textContent"


def on_every_page(**settings):
    """A test of all pages, one after the other, each in a window of its own."""

    def over(use):
        @functools.wraps(use)
        def test(self):
            for path in PAGES:
                with self.subTest(page=path.name), self.page(path, **settings) as page:
                    use(self, page)

        return test

    return over


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    @contextlib.contextmanager
    def page(self, path, quiet=True, **settings):
        """A page in a window of its own; quiet means that nothing else may be asked for or logged."""
        context = self.browser.new_context(**({"viewport": WIDE} | settings))
        page = context.new_page()
        page.set_default_timeout(300_000)
        asked, logged = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.goto(path.as_uri())
        try:
            yield page
            if quiet:
                self.assertEqual([url for url in asked if not url.startswith("data:")], [path.as_uri()])
                self.assertEqual(logged, [])
        finally:
            context.close()

    def plots(self, page):
        """The first figures whose points can be gone through, and the last."""
        plots = page.locator(".plot[tabindex]")
        return [plots.nth(at) for at in sorted({0, 1, plots.count() - 1}) if 0 <= at < plots.count()]

    @on_every_page()
    def test_a_line_is_hidden_in_all_figures_and_axes_stay(self, page):
        before = page.evaluate(DRAWN)
        buttons = page.locator(".legend li[data-line] button")
        # Maps have no lines.
        charts = page.locator(".plot").count()
        self.assertEqual(buttons.count() > 0, charts > 0)
        if charts == 0:
            self.assertGreater(page.locator(".heat canvas").count(), 0)
            return
        button = buttons.first
        name = button.inner_text()
        self.assertTrue(all(page.evaluate(SEEN, name)))
        button.click()
        self.assertEqual(set(page.evaluate(SEEN, name)), {False})
        same = page.locator(f".legend li[data-line={quoted(name)}] button")
        states = [same.nth(at).get_attribute("aria-pressed") for at in range(same.count())]
        self.assertEqual(set(states), {"false"})
        self.assertEqual(page.evaluate(DRAWN), before)
        self.assertEqual(page.evaluate(STATUS), f"{name} hidden in all figures")
        # Again by the keyboard, then all at once.
        button.focus()
        page.keyboard.press("Space")
        self.assertTrue(all(page.evaluate(SEEN, name)))
        page.keyboard.press("Enter")
        self.assertFalse(any(page.evaluate(SEEN, name)))
        page.get_by_role("button", name="Show all").first.click()
        self.assertTrue(all(page.evaluate(SEEN, name)))
        self.assertEqual(page.locator("button[aria-pressed=false]").count(), 0)
        self.assertEqual(page.get_by_role("button", name="Show all").count(), 0)

    @on_every_page()
    def test_a_point_says_its_figure_when_it_is_pointed_at(self, page):
        for plot in self.plots(page):
            plot.scroll_into_view_if_needed()
            tip, marks = plot.locator(".tip"), plot.locator("[data-at]")
            self.assertFalse(tip.is_visible())
            for at in {0, marks.count() // 2, marks.count() - 1}:
                box = marks.nth(at).bounding_box()
                page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
                tip.wait_for(state="visible")
                self.beside(tip, box)
                self.within(tip, page, WIDE)
                said = tip.inner_text()
                if plot.locator(".at.marker").count():
                    for part in ["95 % interval", "p99", "CPU"]:
                        self.assertIn(part, said)
                else:
                    self.assertIn("printed in", said)
                page.mouse.move(0, 0)
                tip.wait_for(state="hidden")

    def beside(self, tip, point):
        """Above or below the point, and not far from it."""
        box = tip.bounding_box()
        middle = point["y"] + point["height"] / 2
        far = min(abs(box["y"] - middle), abs(box["y"] + box["height"] - middle))
        self.assertLess(far, 40)

    def within(self, tip, page, size):
        """The whole of it is on the screen, sideways at least."""
        box = tip.bounding_box()
        self.assertGreaterEqual(box["x"], 0)
        self.assertLessEqual(box["x"] + box["width"], size["width"])

    @on_every_page()
    def test_keys_go_from_point_to_point_and_tell_each(self, page):
        for plot in self.plots(page):
            # From the element before it, as a user without a pointer does.
            plot.locator("xpath=preceding-sibling::ul").locator("button:visible").last.focus()
            page.keyboard.press("Tab")
            self.assertTrue(plot.evaluate("e => e === document.activeElement"))
            self.assertNotEqual(plot.evaluate("e => getComputedStyle(e).outlineStyle"), "none")
            first = page.evaluate(STATUS)
            self.assertTrue(plot.locator(".tip").is_visible())
            self.assertEqual(
                first, "; ".join(plot.locator(".tip").inner_text().strip().split("\n"))
            )
            one = plot.locator(".line").first.locator(".marker").count() == 1
            page.keyboard.press("ArrowRight")
            self.assertEqual(page.evaluate(STATUS) == first, one)
            page.keyboard.press("End")
            last = page.evaluate(STATUS)
            page.keyboard.press("ArrowRight")
            self.assertEqual(page.evaluate(STATUS), last)
            page.keyboard.press("Home")
            self.assertEqual(page.evaluate(STATUS), first)
            if plot.locator("svg [data-line]:has([data-at])").count() > 1:
                ways = set()
                for key in ["ArrowDown", "ArrowUp", "ArrowUp"]:
                    page.keyboard.press(key)
                    ways.add(page.evaluate(STATUS).split(",")[0])
                self.assertGreater(len(ways), 1)
            page.keyboard.press("Escape")
            self.assertFalse(plot.locator(".tip").is_visible())

    @on_every_page()
    def test_hidden_lines_have_no_points_to_go_to(self, page):
        for plot in self.plots(page)[:1]:
            for button in plot.locator("xpath=preceding-sibling::ul").locator("li[data-line] button").all():
                button.click()
            plot.focus()
            page.keyboard.press("ArrowRight")
            self.assertFalse(plot.locator(".tip").is_visible())

    @on_every_page(viewport=PHONE, has_touch=True, is_mobile=True)
    def test_a_finger_does_as_well_and_nothing_sticks_out(self, page):
        for plot in self.plots(page)[:1]:
            plot.scroll_into_view_if_needed()
            box = plot.locator("[data-at]").last.bounding_box()
            page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
            plot.locator(".tip").wait_for(state="visible")
            self.within(plot.locator(".tip"), page, PHONE)
            page.touchscreen.tap(5, 5)
            plot.locator(".tip").wait_for(state="hidden")
        page.evaluate("() => document.querySelectorAll('details').forEach(e => e.open = true)")
        self.assertLessEqual(page.evaluate("() => document.documentElement.scrollWidth"), 390)

    @on_every_page()
    def test_commands_are_copied(self, page):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.evaluate("() => document.querySelectorAll('details').forEach(e => e.open = true)")
        codes = page.locator("code.command, pre > code")
        self.assertGreater(codes.count(), 0)
        buttons = page.get_by_role("button", name="Copy the command for")
        self.assertEqual(buttons.count(), codes.count())
        for at in {0, codes.count() - 1}:
            buttons.nth(at).click()
            page.wait_for_function("() => document.querySelector('main > [role=status]').textContent === 'copied'")
            copied = page.evaluate("() => navigator.clipboard.readText()")
            self.assertEqual(copied, codes.nth(at).inner_text())
            self.assertTrue(copied.startswith("gigae "), copied)
            page.evaluate("() => { document.querySelector('main > [role=status]').textContent = '' }")

    @on_every_page()
    def test_where_there_is_no_clipboard_the_command_is_selected_and_copied(self, page):
        page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.evaluate("() => document.querySelectorAll('details').forEach(e => e.open = true)")
        page.get_by_role("button", name="Copy the command for").first.click()
        code = page.locator("code.command, pre > code").first.inner_text()
        self.assertEqual(page.evaluate("() => getSelection().toString()"), code)

    @on_every_page(java_script_enabled=False)
    def test_everything_is_there_without_scripts(self, page):
        self.assertEqual(page.locator("button").count(), 0)
        for plot in page.locator(".plot").all():
            marks = plot.locator("[data-at]")
            self.assertEqual(marks.count(), plot.locator("[data-at] > title").count())
        self.assertGreater(page.locator("table").count(), 0)

    @on_every_page(quiet=False)
    def test_nothing_else_runs_and_nothing_is_fetched(self, page):
        # The page's own policy refuses each, whether there is a network or not.
        refused = page.evaluate(
            """async () => {
                const refused = new Set();
                document.addEventListener('securitypolicyviolation', (event) => refused.add(event.effectiveDirective));
                await fetch('https://198.18.0.1/').catch(() => {});
                const evil = document.createElement('script');
                evil.textContent = 'window.ran = true';
                document.body.append(evil);
                document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.ran = true">');
                document.body.insertAdjacentHTML('beforeend', '<iframe src="https://198.18.0.1/"></iframe>');
                const end = Date.now() + 30000;
                while (refused.size < 5 && Date.now() < end) await new Promise((done) => setTimeout(done, 10));
                return [window.ran ?? null, ...[...refused].sort()];
            }"""
        )
        self.assertEqual(
            refused, [None, "connect-src", "frame-src", "img-src", "script-src-attr", "script-src-elem"]
        )

    @on_every_page()
    def test_a_map_is_drawn_and_says_its_pairs(self, page):
        maps = page.locator(".heat canvas")
        self.assertEqual(maps.count(), 4 if page.url.endswith("cluster.html") else 0)
        for at in range(maps.count()):
            drawn = maps.nth(at).evaluate(
                """canvas => new Set(new Uint32Array(
                    canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
            )
            # The diagonal, and figures that differ.
            self.assertGreater(drawn, 3)
            maps.nth(at).focus()
            page.keyboard.press("ArrowRight")
            said = maps.nth(at).locator("xpath=../p[contains(@class, 'at')]")
            self.assertRegex(said.inner_text(), r"^h1 to h3: [0-9.e+]+ (us|MB/s)$")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowDown")
            self.assertEqual(said.inner_text(), "h3 to h3: none")

    @on_every_page()
    def test_paper_has_everything_and_no_buttons(self, page):
        figures = page.locator("figure").count()
        folded = page.eval_on_selector_all(FOLDED, "all => all.map(e => e.firstChild.textContent)")
        page.emulate_media(media="print")
        self.assertEqual(page.locator("button.small:visible").count(), 0)
        cuts = page.eval_on_selector_all(".plot, .heat canvas", "all => all.map(e => getComputedStyle(e).breakInside)")
        self.assertEqual(cuts, ["avoid"] * figures)
        file = pathlib.Path(sys.argv[2]).parent / "printed.pdf"
        page.pdf(path=file, format="A4", prefer_css_page_size=True)
        said = plain("".join(sheet.extract_text() for sheet in pypdf.PdfReader(file).pages))
        self.assertNotIn("Showall", said)
        for text in folded:
            self.assertIn(plain(text), said)
        # What was folded: every command, to its end.
        for command in page.locator("code.command").all_text_contents():
            self.assertIn(plain(command), said)
        # And on the screen it is folded again.
        page.wait_for_function(
            "([folded, most]) => document.querySelectorAll(folded).length === most", arg=[FOLDED, len(folded)]
        )

    @on_every_page()
    def test_a_page_is_well_formed_for_those_who_hear_it(self, page):
        levels = [int(tag[1]) for tag in page.eval_on_selector_all("h1,h2,h3,h4", "all => all.map(e => e.tagName)")]
        self.assertEqual(levels.count(1), 1)
        self.assertEqual(levels[0], 1)
        for above, below in zip(levels, levels[1:]):
            self.assertLessEqual(below, above + 1)
        for missing in [
            "table:not(:has(caption))",
            "thead th:not([scope=col])",
            "tbody th:not([scope=row])",
            ".plot > svg:not([aria-label])",
            "figure:not(:has(figcaption))",
            "html:not([lang])",
        ]:
            self.assertEqual(page.locator(missing).count(), 0, missing)
        page.keyboard.press("Tab")
        self.assertEqual(page.evaluate("() => document.activeElement.textContent"), "Skip to the report")
        page.keyboard.press("Enter")
        self.assertEqual(page.evaluate("() => document.activeElement.id"), "main")

    def test_axe_finds_nothing(self):
        looks = [{}, {"viewport": PHONE, "color_scheme": "dark"}]
        for path, look in itertools.product(PAGES, looks):
            with self.subTest(page=path.name, **look), self.page(path, **look) as page:
                page.evaluate("() => document.querySelectorAll('details').forEach(e => e.open = true)")
                plots = page.locator(".plot[tabindex]")
                if plots.count():
                    plots.first.focus()
                    page.keyboard.press("ArrowRight")
                found = Axe().run(page, options={"runOnly": RULES, "resultTypes": ["violations"]})
                said = [
                    f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
                    for one in found.response["violations"]
                ]
                self.assertEqual(said, [])


def plain(text):
    """Its letters, without breaks and ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def quoted(name):
    """A name as a value of an attribute in a selector."""
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
