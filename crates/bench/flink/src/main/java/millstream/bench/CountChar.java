package millstream.bench;

import org.apache.flink.table.functions.ScalarFunction;

/** The user function of Nexmark's q14: how often a letter occurs in a text. */
public final class CountChar extends ScalarFunction {
    public Long eval(String text, String letter) {
        if (text == null || letter == null) {
            return null;
        }
        long count = 0;
        char wanted = letter.charAt(0);
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) == wanted) {
                count++;
            }
        }
        return count;
    }
}
